/*
 * The limit of the machine: one thread with OpenSSL and epoll reads each request completely and answers a constant 202.
 *
 * Like the gateway, it requires a client certificate signed by the given authority. It does nothing else: it reads no
 * header except Content-Length, parses no body and stores nothing. Its cost is TLS, the system calls and the copying.
 *
 *   limit CERT KEY CA     listens on a free port of 127.0.0.1 and prints "listening on <port>"
 *
 * Requests may have at most 64 KiB. The program exits on SIGTERM, or if a system call fails during startup.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_BYTES_MAX 65536
#define ANSWERS_MAX 256
#define EVENTS 256

static const char ANSWER[] =
    "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 65\r\nX-Request-Id: bench\r\n"
    "Connection: keep-alive\r\nKeep-Alive: timeout=60\r\n\r\n"
    "{\"id\":\"00000000-0000-4000-8000-000000000000\",\"status\":\"accepted\"}";
#define ANSWER_BYTES (sizeof ANSWER - 1)

/* Copies of the answer in a row, so that one write can send several answers. */
static char answers[ANSWERS_MAX * sizeof ANSWER];

struct connection {
  SSL *tls;
  int file;
  int waits_to_write;
  size_t answers_owed;
  size_t read;
  char request[REQUEST_BYTES_MAX];
};

static void fail(const char *what) {
  perror(what);
  ERR_print_errors_fp(stderr);
  exit(1);
}

static void end(struct connection *one) {
  SSL_free(one->tls);
  close(one->file);
  free(one);
}

/* Returns the length of the first request; 0 if it is incomplete, -1 if it is too long. */
static long request_bytes(const char *bytes, size_t length) {
  const char *body = memmem(bytes, length, "\r\n\r\n", 4);
  if (body == NULL) return length == REQUEST_BYTES_MAX ? -1 : 0;
  body += 4;
  size_t announced = 0;
  for (const char *line = bytes; line < body - 2; line = (const char *)memchr(line, '\n', (size_t)(body - line)) + 1)
    if (strncasecmp(line, "content-length:", 15) == 0) announced = strtoul(line + 15, NULL, 10);
  size_t whole = (size_t)(body - bytes) + announced;
  if (whole > REQUEST_BYTES_MAX) return -1;
  return whole <= length ? (long)whole : 0;
}

/* Writes the owed answers. Returns 0 if the connection must be closed. */
static int answer(int poll, struct connection *one) {
  int waits = 0;
  while (one->answers_owed > 0) {
    size_t count = one->answers_owed < ANSWERS_MAX ? one->answers_owed : ANSWERS_MAX;
    int written = SSL_write(one->tls, answers, (int)(count * ANSWER_BYTES));
    if (written <= 0) {
      if (SSL_get_error(one->tls, written) != SSL_ERROR_WANT_WRITE) return 0;
      waits = 1;
      break;
    }
    one->answers_owed -= count;
  }
  if (waits != one->waits_to_write) {
    struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = one};
    epoll_ctl(poll, EPOLL_CTL_MOD, one->file, &event);
    one->waits_to_write = waits;
  }
  return 1;
}

/* Reads the received bytes and answers complete requests. Returns 0 if the connection must be closed. */
static int serve(int poll, struct connection *one) {
  if (one->waits_to_write && !answer(poll, one)) return 0;
  for (;;) {
    int got = SSL_read(one->tls, one->request + one->read, (int)(REQUEST_BYTES_MAX - one->read));
    if (got <= 0) {
      int why = SSL_get_error(one->tls, got);
      return (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) && answer(poll, one);
    }
    one->read += (size_t)got;
    size_t from = 0;
    for (;;) {
      long bytes = request_bytes(one->request + from, one->read - from);
      if (bytes < 0) return 0;
      if (bytes == 0) break;
      from += (size_t)bytes;
      one->answers_owed += 1;
    }
    one->read -= from;
    memmove(one->request, one->request + from, one->read);
  }
}

static void take(int poll, int listening, SSL_CTX *context) {
  for (;;) {
    int file = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
    if (file < 0) return;
    int on = 1;
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct connection *one = calloc(1, sizeof *one);
    if (one == NULL) fail("memory");
    one->file = file;
    one->tls = SSL_new(context);
    SSL_set_fd(one->tls, file);
    SSL_set_accept_state(one->tls);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, file, &event) < 0) end(one);
  }
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  signal(SIGPIPE, SIG_IGN);
  for (size_t at = 0; at < ANSWERS_MAX; at += 1) memcpy(answers + at * ANSWER_BYTES, ANSWER, ANSWER_BYTES);

  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  SSL_CTX_set_session_id_context(context, (const unsigned char *)"limit", 5);
  if (SSL_CTX_use_certificate_chain_file(context, arguments[1]) != 1 ||
      SSL_CTX_use_PrivateKey_file(context, arguments[2], SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_load_verify_locations(context, arguments[3], NULL) != 1)
    fail("certificates");

  int listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  if (listening < 0 || bind(listening, (struct sockaddr *)&address, length) < 0 || listen(listening, 8192) < 0 ||
      getsockname(listening, (struct sockaddr *)&address, &length) < 0)
    fail("listening");

  int poll = epoll_create1(0);
  struct epoll_event events[EVENTS] = {{.events = EPOLLIN, .data.ptr = NULL}};
  if (poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, listening, events) < 0) fail("epoll");
  printf("listening on %d\n", ntohs(address.sin_port));
  fflush(stdout);

  for (;;) {
    int ready = epoll_wait(poll, events, EVENTS, -1);
    if (ready < 0 && errno != EINTR) fail("epoll_wait");
    for (int at = 0; at < ready; at += 1) {
      struct connection *one = events[at].data.ptr;
      ERR_clear_error();
      if (one == NULL) take(poll, listening, context);
      else if (!serve(poll, one)) end(one);
    }
  }
}
