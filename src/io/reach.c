/* Where an address leads. */
#include "io/reach.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static tarn__reach reach_of_v4(const unsigned char *a)
{
    static const unsigned char alibaba[4] = {100, 100, 100, 200};
    static const unsigned char oracle[4] = {192, 0, 0, 192};
    if (memcmp(a, alibaba, 4) == 0 || memcmp(a, oracle, 4) == 0) return TARN__LINK_LOCAL;
    if (a[0] == 169 && a[1] == 254) return TARN__LINK_LOCAL;
    if (a[0] == 127 || a[0] == 0) return TARN__THIS_MACHINE;
    bool is_private = a[0] == 10 || (a[0] == 172 && (a[1] & 0xf0) == 16) ||
                      (a[0] == 192 && a[1] == 168) ||
                      (a[0] == 100 && (a[1] & 0xc0) == 64);
    return is_private ? TARN__PRIVATE : TARN__PUBLIC;
}

static bool begins(const unsigned char *a, const void *prefix, size_t len)
{
    return memcmp(a, prefix, len) == 0;
}

/* The prefix of local translators may have 48 to 96 bits, and byte 8 is always 0. What
 * precedes the IPv4 address is 0, too. */
static tarn__reach reach_of_translated(const unsigned char *a)
{
    static const unsigned char places[][4] = {
        {6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12}, {12, 13, 14, 15}};
    tarn__reach nearest = TARN__PUBLIC;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        unsigned char v4[4];
        for (int k = 0; k < 4; k++)
            v4[k] = a[places[i][k]];
        tarn__reach reach = v4[0] ? reach_of_v4(v4) : TARN__PUBLIC;
        if (reach > nearest) nearest = reach;
    }
    return nearest;
}

/* An address for programs that speak only IPv4. */
static tarn__reach reach_of_embedded(const unsigned char *a)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff}, compatible[12];
    static const unsigned char translated[12] = {0, 0x64, 0xff, 0x9b};
    static const unsigned char here[6] = {0, 0x64, 0xff, 0x9b, 0, 1};
    static const unsigned char six_to_four[2] = {0x20, 2};
    if (begins(a, mapped, 12) || begins(a, compatible, 12) || begins(a, translated, 12))
        return reach_of_v4(a + 12);
    if (begins(a, here, 6)) return reach_of_translated(a);
    return begins(a, six_to_four, 2) ? reach_of_v4(a + 2) : TARN__PUBLIC;
}

static tarn__reach reach_of_v6(const unsigned char *a)
{
    static const unsigned char local[16] = {[15] = 1}, none[16];
    static const unsigned char amazon[16] = {0xfd, 0,           0x0e,
                                             0xc2, [14] = 0x02, [15] = 0x54};
    if (begins(a, local, 16) || begins(a, none, 16)) return TARN__THIS_MACHINE;
    if (begins(a, amazon, 16)) return TARN__LINK_LOCAL;
    if (a[0] == 0xfe && (a[1] & 0xc0) == 0x80) return TARN__LINK_LOCAL;
    return (a[0] & 0xfe) == 0xfc ? TARN__PRIVATE : reach_of_embedded(a);
}

tarn__reach tarn__reach_of(const struct sockaddr *address)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    switch (address->sa_family) {
    case AF_INET:
        memcpy(&v4, address, sizeof v4);
        return reach_of_v4((const unsigned char *)&v4.sin_addr);
    case AF_INET6:
        memcpy(&v6, address, sizeof v6);
        return reach_of_v6(v6.sin6_addr.s6_addr);
    default:
        return TARN__PUBLIC;
    }
}

tarn__reach tarn__reach_of_text(const char *address)
{
    unsigned char v4[4], v6[16];
    if (inet_pton(AF_INET, address, v4) == 1) return reach_of_v4(v4);
    return inet_pton(AF_INET6, address, v6) == 1 ? reach_of_v6(v6) : TARN__PUBLIC;
}

tarn__reach tarn__reach_farther(tarn__reach a, tarn__reach b)
{
    if (a == TARN__LINK_LOCAL) a = TARN__PRIVATE; /* as trusted as its network */
    if (b == TARN__LINK_LOCAL) b = TARN__PRIVATE;
    return a < b ? a : b;
}

bool tarn__may_redirect(tarn__reach from, tarn__reach to)
{
    return to != TARN__LINK_LOCAL && to <= from;
}
