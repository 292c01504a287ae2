# A TLS 1.2 client that renegotiates with a second certificate and then sends one request on the same connection.
#
#   renegotiate.py PORT CERT KEY SECOND_CERT SECOND_KEY REQUEST_FILE
#
# The first line of its output says what the server did with the renegotiation: "renegotiated" or "refused". What the
# server sent back for the request follows. With SECOND_CERT equal to "-" it does not renegotiate and says "none".
#
# Python's ssl module cannot do this, so it calls libssl. Every read and write ends after READ_SECONDS.
import ctypes
import ctypes.util
import socket
import struct
import sys

READ_SECONDS = 10
SSL_FILETYPE_PEM = 1
TLS1_2_VERSION = 0x0303
SSL_CTRL_SET_MAX_PROTO_VERSION = 124

ssl = ctypes.CDLL(ctypes.util.find_library('ssl'))
for name in ('TLS_client_method', 'SSL_CTX_new', 'SSL_new'):
    getattr(ssl, name).restype = ctypes.c_void_p
ssl.SSL_CTX_new.argtypes = [ctypes.c_void_p]
ssl.SSL_CTX_ctrl.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p]
ssl.SSL_new.argtypes = [ctypes.c_void_p]
ssl.SSL_set_fd.argtypes = [ctypes.c_void_p, ctypes.c_int]
for name in ('SSL_connect', 'SSL_renegotiate', 'SSL_do_handshake', 'SSL_renegotiate_pending'):
    getattr(ssl, name).argtypes = [ctypes.c_void_p]
for name in ('SSL_read', 'SSL_write'):
    getattr(ssl, name).argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
for name in ('SSL_use_certificate_file', 'SSL_use_PrivateKey_file'):
    getattr(ssl, name).argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]


def require(done, what):
    if done != 1:
        sys.exit(f'{what} failed')


def use(connection, certificate, key):
    require(ssl.SSL_use_certificate_file(connection, certificate.encode(), SSL_FILETYPE_PEM), f'reading {certificate}')
    require(ssl.SSL_use_PrivateKey_file(connection, key.encode(), SSL_FILETYPE_PEM), f'reading {key}')


def read_rest(connection):
    received = b''
    buffer = ctypes.create_string_buffer(65536)
    while (count := ssl.SSL_read(connection, buffer, len(buffer))) > 0:
        received += buffer.raw[:count]
    return received


port, certificate, key, second_certificate, second_key, request_file = sys.argv[1:]
with open(request_file, 'rb') as file:
    request = file.read()

end = socket.create_connection(('127.0.0.1', int(port)), timeout=READ_SECONDS)
end.settimeout(None)
for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
    end.setsockopt(socket.SOL_SOCKET, option, struct.pack('ll', READ_SECONDS, 0))

context = ssl.SSL_CTX_new(ssl.TLS_client_method())
ssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_2_VERSION, None)
connection = ssl.SSL_new(context)
ssl.SSL_set_fd(connection, end.fileno())
use(connection, certificate, key)
require(ssl.SSL_connect(connection), 'the handshake')

outcome = 'none'
if second_certificate != '-':
    use(connection, second_certificate, second_key)
    require(ssl.SSL_renegotiate(connection), 'asking for a renegotiation')
    done = ssl.SSL_do_handshake(connection)
    outcome = 'renegotiated' if done == 1 and ssl.SSL_renegotiate_pending(connection) == 0 else 'refused'
print(outcome, flush=True)
if ssl.SSL_write(connection, request, len(request)) > 0:
    sys.stdout.buffer.write(read_rest(connection))
