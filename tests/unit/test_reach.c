/* Where a server may redirect to, without a network. */
#include "support.h"

#include <arpa/inet.h>

#include "io/reach.h"

static tarn__reach reach(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return tarn__reach_of((struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return tarn__reach_of((struct sockaddr *)&v6);
}

static void addresses_lead_where_they_lead_in_every_form(void **state)
{
    (void)state;
    static const struct {
        const char *addresses[16];
        tarn__reach reach;
    } cases[] = {
        {{"93.184.215.14", "169.253.0.1", "169.255.0.1", "172.15.0.1", "172.32.0.1",
          "100.63.0.1", "100.128.0.1", "2606:2800::1", "::ffff:8.8.8.8",
          "64:ff9b::8.8.8.8", "64:ff9b:1::8.8.8.8", "2002:808:808::1", "fe00::1",
          "192.169.0.1", "128.0.0.1"},
         TARN__PUBLIC},
        {{"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
          "fc00::1", "fd12:3456::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1",
          "2002:a00:1::1", "64:ff9b:1:a00:0:100::", "fdff::1"},
         TARN__PRIVATE},
        {{"127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "::1", "::", "::ffff:127.0.0.1",
          "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b:1::127.0.0.1", "2002:7f00:1::1"},
         TARN__THIS_MACHINE},
        {{"169.254.169.254", "169.254.0.1", "fe80::1", "febf::1", "fd00:ec2::254",
          "::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::169.254.169.254",
          "64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::", "2002:a9fe:a9fe::1",
          "100.100.100.200", "192.0.0.192"},
         TARN__LINK_LOCAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (const char *const *at = cases[i].addresses; *at; at++) {
            if (reach(*at) != cases[i].reach)
                fail_msg("%s: %d, not %d", *at, reach(*at), cases[i].reach);
            assert_int_equal(tarn__reach_of_text(*at), cases[i].reach);
        }
    assert_int_equal(tarn__reach_of_text(""), TARN__PUBLIC);
    struct sockaddr other = {.sa_family = AF_UNIX};
    assert_int_equal(tarn__reach_of(&other), TARN__PUBLIC);
}

static void redirects_lead_no_nearer_than_where_the_request_was(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        bool may;
    } cases[] = {
        {"8.8.8.8", "9.9.9.9", true},
        {"8.8.8.8", "127.0.0.1", false},
        {"8.8.8.8", "::1", false},
        {"8.8.8.8", "10.0.0.1", false},
        {"8.8.8.8", "fd12::1", false},
        {"8.8.8.8", "169.254.169.254", false},
        {"2606:2800::1", "::ffff:127.0.0.1", false},
        {"10.0.0.1", "8.8.8.8", true},
        {"10.0.0.1", "192.168.0.1", true},
        {"fd12::1", "fd34::1", true},
        {"fd12::1", "fd00:ec2::254", false},
        {"10.0.0.1", "127.0.0.1", false},
        {"127.0.0.1", "::1", true},
        {"127.0.0.1", "10.0.0.1", true},
        {"127.0.0.1", "169.254.169.254", false},
        {"127.0.0.1", "fe80::1", false},
        {"169.254.0.1", "169.254.0.2", false},
        {"169.254.0.1", "127.0.0.1", false},
        {"169.254.0.1", "10.0.0.1", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tarn__reach from = tarn__reach_farther(TARN__THIS_MACHINE, reach(cases[i].from));
        if (tarn__may_redirect(from, reach(cases[i].to)) != cases[i].may)
            fail_msg("%s to %s", cases[i].from, cases[i].to);
    }
    /* On the way through a public address nothing nearer may follow. */
    tarn__reach way = tarn__reach_farther(reach("127.0.0.1"), reach("8.8.8.8"));
    assert_false(tarn__may_redirect(way, reach("127.0.0.1")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_lead_where_they_lead_in_every_form),
        cmocka_unit_test(redirects_lead_no_nearer_than_where_the_request_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
