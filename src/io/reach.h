/* Classifies addresses, and decides where a server may redirect a request. A server could
 * otherwise make the client contact addresses that the server itself cannot reach: the
 * client's machine and network, and the services that give credentials to cloud machines.
 * */
#ifndef TARN_IO_REACH_H
#define TARN_IO_REACH_H

#include <stdbool.h>
#include <sys/socket.h>

typedef enum tarn__reach {
    TARN__PUBLIC,
    TARN__PRIVATE,      /* 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7 */
    TARN__THIS_MACHINE, /* 127/8, 0/8, ::1, :: */
    TARN__LINK_LOCAL    /* 169.254/16, fe80::/10, metadata services */
} tarn__reach;

/* IPv6 addresses that contain an IPv4 address lead where that leads. */
tarn__reach tarn__reach_of(const struct sockaddr *address);
tarn__reach tarn__reach_of_text(const char *address); /* without a port */

/* The farther one of two places that a request goes through. */
tarn__reach tarn__reach_farther(tarn__reach a, tarn__reach b);

/* Whether a request that went through a place as far as from may be redirected to another
 * one: never to link-local addresses, and to private ones and to this machine only from
 * there or nearer. */
bool tarn__may_redirect(tarn__reach from, tarn__reach to);

#endif
