# client_grpc.py HOST:PORT [AUTHORIZATION]: one unary gRPC call; gRPC brings its own resolver and its own TLS.
import os
import sys

import grpc

with open(os.environ["SSL_CERT_FILE"], "rb") as file:
    credentials = grpc.ssl_channel_credentials(file.read())
metadata = [("authorization", sys.argv[2])] if len(sys.argv) > 2 else []
with grpc.secure_channel(sys.argv[1], credentials) as channel:
    say = channel.unary_unary("/test.Echo/Say")
    try:
        print(say(b"hello over grpc", metadata=metadata, timeout=20))
    except grpc.RpcError as error:
        print(error.code(), error.details())
        sys.exit(22)
