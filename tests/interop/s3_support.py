"""moto's S3 server, for tests."""
import json
import logging
import os

import boto3
import moto.settings
from moto.server import ThreadedMotoServer


class Moto:
    """moto's server with a user who has all permissions, and signatures on."""

    def __enter__(self):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        os.environ.update(AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none", no_proxy="*")
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        self.url = "http://%s:%d" % self.server.get_host_and_port()
        iam = boto3.client("iam", endpoint_url=self.url, region_name="us-east-1")
        iam.create_user(UserName="user")
        allow = {"Version": "2012-10-17",
                 "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        iam.put_user_policy(UserName="user", PolicyName="all", PolicyDocument=json.dumps(allow))
        key = iam.create_access_key(UserName="user")["AccessKey"]
        self.env = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_REGION": "us-east-1",
                    "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
                    "AWS_ENDPOINT_URL_S3": self.url}
        self.client = boto3.client("s3", endpoint_url=self.url, region_name="us-east-1",
                                   aws_access_key_id=key["AccessKeyId"],
                                   aws_secret_access_key=key["SecretAccessKey"])
        self.client.create_bucket(Bucket="bucket")
        moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = 0  # from here on signatures are checked
        return self

    def __exit__(self, *_):
        self.server.stop()

    def get(self, key):
        return self.client.get_object(Bucket="bucket", Key=key)["Body"].read()
