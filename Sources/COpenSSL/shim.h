#ifndef PUSHQ_COPENSSL_SHIM_H
#define PUSHQ_COPENSSL_SHIM_H

#include <openssl/ssl.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

// OpenSSL spells these as macros around its ctrl functions, which Swift does not import.

static inline long pushq_SSL_CTX_set_mode(SSL_CTX *context, long mode) { return SSL_CTX_set_mode(context, mode); }

static inline long pushq_SSL_CTX_set_min_proto_version(SSL_CTX *context, int version) {
    return SSL_CTX_set_min_proto_version(context, version);
}

static inline long pushq_SSL_CTX_set_max_proto_version(SSL_CTX *context, int version) {
    return SSL_CTX_set_max_proto_version(context, version);
}

// TLS without renegotiation and compression (RFC 9113 §9.2). An end without close_notify counts as an end: HTTP/2 frames tell
// themselves whether they are whole.
static const uint64_t pushq_SSL_OPTIONS = SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF;

// A client's sessions are told of, and are kept by their owner, not by the context.
static inline void pushq_SSL_CTX_tell_of_sessions(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
}

static inline void pushq_SSL_CTX_set_read_ahead(SSL_CTX *context) { SSL_CTX_set_read_ahead(context, 1); }

static inline long pushq_SSL_CTX_add1_chain_cert(SSL_CTX *context, X509 *certificate) {
    return SSL_CTX_add1_chain_cert(context, certificate);
}

static inline long pushq_SSL_set_tlsext_host_name(SSL *session, const char *name) {
    return SSL_set_tlsext_host_name(session, name);
}

static inline long pushq_BIO_get_mem_data(BIO *memory, char **bytes) { return BIO_get_mem_data(memory, bytes); }

// An RFC 2253 name with UTF-8 left as it is; the flags are defined by expressions that Swift does not import.
static const unsigned long pushq_XN_FLAG_ONE_LINE = XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB;

// The typed stacks are macros as well.

static inline int pushq_X509_count(const STACK_OF(X509) *certificates) { return sk_X509_num(certificates); }

static inline X509 *pushq_X509_at(const STACK_OF(X509) *certificates, int index) {
    return sk_X509_value(certificates, index);
}

static inline int pushq_X509_OBJECT_count(const STACK_OF(X509_OBJECT) *objects) { return sk_X509_OBJECT_num(objects); }

static inline X509 *pushq_X509_OBJECT_certificate_at(const STACK_OF(X509_OBJECT) *objects, int index) {
    return X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, index));
}

static inline void pushq_X509_free_all(STACK_OF(X509) *certificates) { sk_X509_pop_free(certificates, X509_free); }

#endif
