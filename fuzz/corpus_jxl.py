"""Seeds for fuzz_jxl: one byte for the channels, then an image. The images were made once, with
imagecodecs and with programs that use libjxl, and are stored here."""
import base64

FILES = {
    "grey":
        "/wpYACCAoLgRCAQBAPABSygz3YTxGpwfvK+gIGEERKhhEHCMpHXLNoxh5JGkGwBY/fdTZNKLRfhmFE6a8z9fxImRr3H9ItSmjCDj"
        "Kqo7zg4gaDkwvyHSme2lSiLdUh76skCOPRwJ6Tj2+jlVlkXO0/I5ISmg6GyQzrWyzQWFN8TC0U+Aa9vbD4h7CQ==",
    "rgb":
        "/wpYACCASAgEAQDgBEsoMoWLnQffbS9Go/FS2EJBQkJBYjwSCgrJARFEIloBUBVvWrcwECLScJGJGMYwIhKHChExZBh7ADqppgAw"
        "7KDpl6XM7UUD3sDmoBkgVECWkDJt23H/cAwscXCqp9UCtI2sno/Wi49+KWScHDYkwsNxhXerNtHdJRcTUGwCfqyXYBq1wPuhM+Un"
        "ZhBcGa/opZhv4kI8g5jCQfsZ4G+B4inmiOPzitBy56n7J4A1bbmfS1G7/wKw9/f2bVnwBJ0vMfzls1Pn1QurS1v5RwaMe0W4+8BJ"
        "WL+kmimh/mJ1A064aUUu2BwClKn1LdolggSiKhYKxpaMEAAicCEnZnoc7gVVFFSxl2JcW53DsR1JJopRDDOliODSTsCGbEKD0UI9"
        "V/0djjcWYbV3Lv3HTN4eqADD0Az+Lew5LA==",
    "rgb_lossy":
        "/wpYACAMABOIAgC4ArWfIAAAFSqjjBu8nOv58kOHxbSN6wxttW1hCWOzvTBISKFEUDevetqMKGs+y10ZR509GETagK76P6j8Kn1w"
        "VedWA44NEBEAqJACySgqkSIZL8beKerueDHGA37lWdEog1aBn3sKu+ga3W85ZFOBberjyHXIHaz+pOWeezQSkez6EyT0lGRhFU4a"
        "ybgOGuiWNlb0mxA8rj7HVY0fC7LzigyZEaePnj4DdRPZvkFLAQ==",
    "rgb_rough":
        "/wpYACAMABYIAwCMAelaDACACpVRxg1ezvV8+aHDYtrGdYa22rawJFFkHJukEzgkiaQI3tbrnEhREPPx5ehuVcyd7DUyWgegQIFK"
        "Ekcwnaimh/G93D6Qe0XzQLEfSBPoduJukLdxuAvaCTXAAuqAAA==",
    "rgba_lossy":
        "/wpYACCAnQBMgCAA1ATlmhIAABUqo4wbvJzr+fJDh8W0jesMbbVtYUmiyDg2SXUOgcNECgp37GDmA/lPACCzDCXQSKmmqsuiJSAh"
        "KhuwsOi8YCaFTI2CVpKNa8I/xNxFSRgCmU4Us+LBsTKvLFIFdIHcqJPCAkwspMPvXPxpRuhBhI4ck6CeqR6Ewp1kf8JDAHQXu98h"
        "J1DQYR7ABaCo0NtUsfr941MeFNPHGtWcXHpoEb2l1TSCFjWAEHE8NSmEmYeuvWJnUeasvX+CQrJD+ir3S5nfNwGA70bnQlrnJf47"
        "ltF4ihS3urB1mFLaYiqkQBIM127VRilWjDFqwYsvoOpZnQDWx+bV7BB8a9BSWAEHUNq3x2n43xn/9sTM5muf+RH9q7wZMXYT1gQu"
        "SQrsQ4/kwqVdWIDIWokcd3tem04WIFc=",
    "container":
        "AAAADEpYTCANCocKAAAAFGZ0eXBqeGwgAAAAAGp4bCAAAACYanhsY/8KWAAgDAAUCAMADALbUAoAgAqVUcYNXs71fPmhw2LaxnWG"
        "ttq2sCRRZBybpBM4JIkFGHDL9uNtvz2Y+ci7A/eWB2m+H3oe1BZzB6CAAiqkQAYMA5Xa2BhjjOIZpzLAQ5R06y6QbxlDC9buNPVF"
        "aEYwgVwfBoI38P3Bcho65YWk770BaMgHupRiIFcPqQJQDQ==",
    "deep":
        "AAAADEpYTCANCocKAAAAFGZ0eXBqeGwgAAAAAGp4bCAAAAAJanhsbAoAAABIanhsY/8KGDD8AEWLCAQBAMgASxLFgoUkWqA7vI6+"
        "JKNk1PzN+/8Czxl1HSEt2q5+4nDvstwRKDH4IAMBxlbV0yIeGQU=",
    "half":
        "/wpYACAwSooWAQATCAEABAJnEygBAFChMsq4wcu5ni8/dFhM27jO0FbbFpYkioxjk3QChySxEINdgA1gwM/AzKNMrWy9uAcAdAAS"
        "BKiQAqm2WUZJjZRYipIYY4xk9lUAqH1kuQ2ZYn5yjgtK936SvHPkji2gn4KUNGsGATHMius5GiTlKVjDVh8Kw/e7Hf0AmgQ=",
    "single":
        "/wpYACCQS4oWAQATCAEABAJnEygBAFChMsq4wcu5ni8/dFhM27jO0FbbFpYkioxjk3QChySxEINdgA1gwM/AzKNMrWy9uAsAdAAS"
        "BKiQAqm2WUZJjZRYipIYY4xk9lUAqH1kuQ2ZYn5yjgtK936SvHPkji2gn4KUNGsGATHMius5GiTlKVjDVh8Kw/e7Hf0AmgQ=",
    "animation":
        "/woIQEETAIgJCAQBAEwASxLFgoUkii3ELxAGQP//WkHEAQgEBQBgAEsSxYKFJBLB9HojAPALhAHwrGrjEEXRFA==",
    "deep_24":
        "AAAADEpYTCANCocKAAAAFGZ0eXBqeGwgAAAAAGp4bCAAAAAJanhsbAoAAAA0anhsY/8KCEB8QQIIAgEAfABLGIsVQsIGd+IHcAQF"
        "BQUFBd2VdxkUFJTLKQaMgAAA",
    "extra_channels":
        "AAAADEpYTCANCocKAAAAFGZ0eXBqeGwgAAAAAGp4bCAAAAAJanhsbAoAAABKanhsY/8KCEDQowPoADqADqAD6AA6gA6gA1DcCAgA"
        "ABAAABAAgABLEsWChSQO0Tor3nB2gRMABkDg32FJA0saWNLASAviAQ==",
    "three_extra":
        "/woIQNCgA+gAOgDFjQgAARAAWABLEsWChSQOUXY3CekCYgAEfgaXdCAW",
    "premultiplied":
        "/woIQDAASggQEAA8AEsYixXCSQLmAQgAAGAAAA==",
    "turned":
        "/woIQAvEBAgCAQBQAEsYixXCAaoXxfcDkEGDnnlyXAkA",
}


def jxl_images():
    for i, (name, text) in enumerate(FILES.items()):
        data = base64.b64decode(text)
        yield name, bytes([i % 4]) + data
        yield name + "_2", bytes([(i + 2) % 4]) + data
    yield "cut", b"\0" + base64.b64decode(FILES["rgb_lossy"])[:90]
    yield "nothing", b"\0\xff\x0a"
