/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pull-reason.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define NO_SUCH_HOST "no such host" /* NXDOMAIN; other words are for a DNS that did not answer */

/* clang-format off */
static const struct {
        const char *name;
        PullRemedy remedy;
        const char *advice;
} reasons[_PULL_REASON_MAX] = {
        [PULL_REASON_NONE] = { "None", PULL_REMEDY_TIME,
                "nothing to do" },
        [PULL_REASON_INVALID_REFERENCE] = { "InvalidReference", PULL_REMEDY_NONE,
                "correct the name, the tag or the digest" },
        [PULL_REASON_INVALID_SPEC] = { "InvalidSpec", PULL_REMEDY_NONE,
                "correct the request, and give it a new version" },
        [PULL_REASON_NOT_FOUND] = { "NotFound", PULL_REMEDY_CREDENTIALS,
                "check the name and the tag" },
        [PULL_REASON_UNAUTHORIZED] = { "Unauthorized", PULL_REMEDY_CREDENTIALS,
                "check the name, and give credentials that may pull the image" },
        [PULL_REASON_INVALID_CREDENTIALS] = { "InvalidCredentials", PULL_REMEDY_CREDENTIALS,
                "correct the credentials of this registry" },
        [PULL_REASON_REGISTRY_UNREACHABLE] = { "RegistryUnreachable", PULL_REMEDY_NETWORK,
                "check that the node can reach the registry: its name, DNS, proxy and firewall" },
        [PULL_REASON_TLS] = { "TLS", PULL_REMEDY_NETWORK,
                "check the registry's certificate and the runtime's settings for this registry" },
        [PULL_REASON_RATE_LIMITED] = { "RateLimited", PULL_REMEDY_CREDENTIALS,
                "wait, or give credentials or a mirror that allow more" },
        [PULL_REASON_REGISTRY_ERROR] = { "RegistryError", PULL_REMEDY_NETWORK,
                "check the registry and the proxy in front of it" },
        [PULL_REASON_WRONG_CONTENT] = { "WrongContent", PULL_REMEDY_TIME,
                "push the image again, and check the proxies on the way" },
        [PULL_REASON_NO_SPACE] = { "NoSpace", PULL_REMEDY_TIME,
                "free disk space on the node" },
        [PULL_REASON_DISK_PRESSURE] = { "DiskPressure", PULL_REMEDY_TIME,
                "remove images or make the disk larger; the pull waits for free disk space" },
        [PULL_REASON_POD_WAITS] = { "PodWaits", PULL_REMEDY_TIME,
                "the pull goes on with what it has fetched as soon as no pod waits for its image" },
        [PULL_REASON_NODES_FIRST] = { "NodesFirst", PULL_REMEDY_TIME,
                "other nodes pull now, and this node goes on by itself" },
        [PULL_REASON_REMOVED] = { "Removed", PULL_REMEDY_TIME,
                "check what removes images on this node, and whether its disk is full" },
        [PULL_REASON_NO_PROGRESS] = { "NoProgress", PULL_REMEDY_NETWORK,
                "check the network between node and registry" },
        [PULL_REASON_INCOMPLETE] = { "Incomplete", PULL_REMEDY_NONE,
                "let the agent see the snapshotter's mounts, request the image without "
                "complete, or use another snapshotter" },
        [PULL_REASON_DEADLINE] = { "DeadlineExceeded", PULL_REMEDY_NETWORK,
                "allow more time, or check the network between node and registry" },
        [PULL_REASON_CANCELED] = { "Canceled", PULL_REMEDY_TIME,
                "request the image again if it is still needed" },
        [PULL_REASON_RUNTIME_UNAVAILABLE] = { "RuntimeUnavailable", PULL_REMEDY_TIME,
                "check that the container runtime is running" },
        [PULL_REASON_UNSUPPORTED] = { "Unsupported", PULL_REMEDY_NONE,
                "use an image made for this node's platform and runtime" },
        [PULL_REASON_UNKNOWN] = { "Unknown", PULL_REMEDY_TIME,
                "check the log of the container runtime" },
};

/* The first line whose words are in the text decides, so a cause stands above its effects: "failed
 * to authorize: ... no such host" is about the network, and "no match for platform in manifest: not
 * found" about the platform. All in lower case. */
static const struct {
        const char *words;
        PullReason reason;
} rules[] = {
        { "no space left on device",                     PULL_REASON_NO_SPACE             },
        { "disk quota exceeded",                         PULL_REASON_NO_SPACE             },

        { "stream removed",                              PULL_REASON_RUNTIME_UNAVAILABLE  },
        { "server is not initialized yet",               PULL_REASON_RUNTIME_UNAVAILABLE  },
        { "unknown service",                             PULL_REASON_RUNTIME_UNAVAILABLE  },

        { "invalid reference format",                    PULL_REASON_INVALID_REFERENCE    },
        { "failed to parse image reference",             PULL_REASON_INVALID_REFERENCE    },
        { "couldn't parse image",                        PULL_REASON_INVALID_REFERENCE    },
        { "invalid image reference",                     PULL_REASON_INVALID_REFERENCE    },
        { "invalid image name",                          PULL_REASON_INVALID_REFERENCE    },
        { "did not resolve to an alias",                 PULL_REASON_INVALID_REFERENCE    },
        { "short-name resolution enforced",              PULL_REASON_INVALID_REFERENCE    },

        { "failed to parse auth config",                 PULL_REASON_INVALID_CREDENTIALS  },
        { "invalid auth config",                         PULL_REASON_INVALID_CREDENTIALS  },
        { "invalid authorization config",                PULL_REASON_INVALID_CREDENTIALS  },
        { "illegal base64 data",                         PULL_REASON_INVALID_CREDENTIALS  },

        { "tls handshake timeout",                       PULL_REASON_REGISTRY_UNREACHABLE },
        { "x509:",                                       PULL_REASON_TLS                  },
        { "tls:",                                        PULL_REASON_TLS                  },
        { "certificate signed by unknown authority",     PULL_REASON_TLS                  },
        { "certificate has expired",                     PULL_REASON_TLS                  },
        { "server gave http response to https client",   PULL_REASON_TLS                  },
        { "sent an http request to an https server",     PULL_REASON_TLS                  },

        { "toomanyrequests",                             PULL_REASON_RATE_LIMITED         },
        { "too many requests",                           PULL_REASON_RATE_LIMITED         },
        { "rate limit",                                  PULL_REASON_RATE_LIMITED         },
        { "rate exceeded",                               PULL_REASON_RATE_LIMITED         },
        { "statuscode: 429",                             PULL_REASON_RATE_LIMITED         },

        { "unexpected commit digest",                    PULL_REASON_WRONG_CONTENT        },
        { "unexpected commit size",                      PULL_REASON_WRONG_CONTENT        },
        { "failed size validation",                      PULL_REASON_WRONG_CONTENT        },
        { "short read",                                  PULL_REASON_WRONG_CONTENT        },
        { "digest did not match",                        PULL_REASON_WRONG_CONTENT        },
        { "digest mismatch",                             PULL_REASON_WRONG_CONTENT        },
        { "does not match digest",                       PULL_REASON_WRONG_CONTENT        },
        { "does not match expected",                     PULL_REASON_WRONG_CONTENT        },
        { "manifest verification failed",                PULL_REASON_WRONG_CONTENT        },
        { "wrong diff id",                               PULL_REASON_WRONG_CONTENT        },
        { "invalid tar header",                          PULL_REASON_WRONG_CONTENT        },
        { "gzip: invalid",                               PULL_REASON_WRONG_CONTENT        },

        { "redirects",                                   PULL_REASON_REGISTRY_ERROR       },
        { "unexpected media type text/html",             PULL_REASON_REGISTRY_ERROR       },
        { "no match for platform",                       PULL_REASON_UNSUPPORTED          },
        { "no matching manifest",                        PULL_REASON_UNSUPPORTED          },
        { "no image found in",                           PULL_REASON_UNSUPPORTED          },
        { "unsupported media type",                      PULL_REASON_UNSUPPORTED          },
        { "unsupported manifest",                        PULL_REASON_UNSUPPORTED          },
        { "unknown media type",                          PULL_REASON_UNSUPPORTED          },
        { "encountered unknown type",                    PULL_REASON_UNSUPPORTED          },
        { "unexpected media type",                       PULL_REASON_UNSUPPORTED          },
        { "no processor for media-type",                 PULL_REASON_UNSUPPORTED          },
        { "is no longer supported",                      PULL_REASON_UNSUPPORTED          },
        { "unsupported schema version",                  PULL_REASON_UNSUPPORTED          },
        { "mismatched image rootfs",                     PULL_REASON_UNSUPPORTED          },

        { NO_SUCH_HOST,                                  PULL_REASON_REGISTRY_UNREACHABLE },
        { "name resolution",                             PULL_REASON_REGISTRY_UNREACHABLE },
        { "server misbehaving",                          PULL_REASON_REGISTRY_UNREACHABLE },
        { "connection refused",                          PULL_REASON_REGISTRY_UNREACHABLE },
        { "connection reset by peer",                    PULL_REASON_REGISTRY_UNREACHABLE },
        { "connection timed out",                        PULL_REASON_REGISTRY_UNREACHABLE },
        { "no route to host",                            PULL_REASON_REGISTRY_UNREACHABLE },
        { "host is down",                                PULL_REASON_REGISTRY_UNREACHABLE },
        { "network is unreachable",                      PULL_REASON_REGISTRY_UNREACHABLE },
        { "i/o timeout",                                 PULL_REASON_REGISTRY_UNREACHABLE },
        { "timeout awaiting response headers",           PULL_REASON_REGISTRY_UNREACHABLE },
        { "exceeded while awaiting headers",             PULL_REASON_REGISTRY_UNREACHABLE },
        { "proxyconnect",                                PULL_REASON_REGISTRY_UNREACHABLE },
        { "broken pipe",                                 PULL_REASON_REGISTRY_UNREACHABLE },
        { "client connection lost",                      PULL_REASON_REGISTRY_UNREACHABLE },
        { "server closed idle connection",               PULL_REASON_REGISTRY_UNREACHABLE },
        { "server sent goaway",                          PULL_REASON_REGISTRY_UNREACHABLE },
        { "stream error:",                               PULL_REASON_REGISTRY_UNREACHABLE },
        { "unexpected eof",                              PULL_REASON_REGISTRY_UNREACHABLE },
        { ": eof",                                       PULL_REASON_REGISTRY_UNREACHABLE },
        { "dial tcp",                                    PULL_REASON_REGISTRY_UNREACHABLE },
        { "registryunavailable",                         PULL_REASON_REGISTRY_UNREACHABLE },

        { "500 internal server error",                   PULL_REASON_REGISTRY_ERROR       },
        { "502 bad gateway",                             PULL_REASON_REGISTRY_ERROR       },
        { "503 service",                                 PULL_REASON_REGISTRY_ERROR       },
        { "504 gateway",                                 PULL_REASON_REGISTRY_ERROR       },
        { "invalid status code from registry 5",         PULL_REASON_REGISTRY_ERROR       },
        { "received unexpected http status: 5",          PULL_REASON_REGISTRY_ERROR       },

        { "unauthorized",                                PULL_REASON_UNAUTHORIZED         },
        { "403 forbidden",                               PULL_REASON_UNAUTHORIZED         },
        { "(forbidden)",                                 PULL_REASON_UNAUTHORIZED         },
        { "statuscode: 403",                             PULL_REASON_UNAUTHORIZED         },
        { "access denied",                               PULL_REASON_UNAUTHORIZED         },
        { "insufficient_scope",                          PULL_REASON_UNAUTHORIZED         },
        { "authentication required",                     PULL_REASON_UNAUTHORIZED         },
        { "no basic auth credentials",                   PULL_REASON_UNAUTHORIZED         },
        { "authorization failed",                        PULL_REASON_UNAUTHORIZED         },
        { "access to the resource is denied",            PULL_REASON_UNAUTHORIZED         },
        { "denied: ",                                    PULL_REASON_UNAUTHORIZED         },
        { "incorrect username or password",              PULL_REASON_UNAUTHORIZED         },

        { "fetching blob: statuscode: 404",              PULL_REASON_REGISTRY_ERROR       },
        { "404 not found",                               PULL_REASON_NOT_FOUND            },
        { "statuscode: 404",                             PULL_REASON_NOT_FOUND            },
        { "manifest unknown",                            PULL_REASON_NOT_FOUND            },
        { "name unknown",                                PULL_REASON_NOT_FOUND            },
        { "not known to registry",                       PULL_REASON_NOT_FOUND            },
        { "no such image",                               PULL_REASON_NOT_FOUND            },

        /* A token server refuses the credentials in its own words. */
        { "token: unexpected status",                    PULL_REASON_UNAUTHORIZED         },
        { "token: invalid status code",                  PULL_REASON_UNAUTHORIZED         },
        { "token: received unexpected http status",      PULL_REASON_UNAUTHORIZED         },

        { "could not fetch content descriptor",          PULL_REASON_REGISTRY_ERROR       },
        { "unexpected status",                           PULL_REASON_REGISTRY_ERROR       },
        { "failed with status code",                     PULL_REASON_REGISTRY_ERROR       },
        { "unexpected http status",                      PULL_REASON_REGISTRY_ERROR       },
        { "statuscode:",                                 PULL_REASON_REGISTRY_ERROR       },
        { "invalid status code from registry",           PULL_REASON_REGISTRY_ERROR       },
        { "malformed http",                              PULL_REASON_REGISTRY_ERROR       },
        { "invalid character",                           PULL_REASON_REGISTRY_ERROR       },
        { "unexpected end of json",                      PULL_REASON_REGISTRY_ERROR       },
        { "not a valid digest",                          PULL_REASON_REGISTRY_ERROR       },
        { "failed to authorize",                         PULL_REASON_UNAUTHORIZED         },

        /* Content is missing on the node, not in the registry. */
        { "content digest",                              PULL_REASON_UNKNOWN              },
        { "snapshot",                                    PULL_REASON_UNKNOWN              },
        { "not found",                                   PULL_REASON_NOT_FOUND            },

        { "deadline exceeded",                           PULL_REASON_DEADLINE             },
        /* After its own cancel the agent reads no answer, so this is the runtime's time-out. */
        { "context canceled",                            PULL_REASON_NO_PROGRESS          },
};
/* clang-format on */

#define N_RULES (sizeof(rules) / sizeof(rules[0]))

static PullReason reason_from_kind(ErrorKind kind) {
        switch (kind) {
        case ERROR_NOT_FOUND: return PULL_REASON_NOT_FOUND;
        case ERROR_DENIED: return PULL_REASON_UNAUTHORIZED;
        case ERROR_TIMEOUT: return PULL_REASON_DEADLINE;
        case ERROR_CANCELED: return PULL_REASON_NO_PROGRESS;
        case ERROR_UNAVAILABLE: return PULL_REASON_RUNTIME_UNAVAILABLE;
        case ERROR_UNSUPPORTED: return PULL_REASON_UNSUPPORTED;

        case ERROR_NONE:
        case ERROR_INVALID:
        case ERROR_CONFLICT:
        case ERROR_GONE:
        case ERROR_INTERNAL:
        case _ERROR_KIND_MAX: break;
        }

        return PULL_REASON_UNKNOWN;
}

static bool is_word(const char *text, size_t size, const char *word) {
        while (size > 0 && ispunct((unsigned char) text[size - 1]))
                size--;

        return size == strlen(word) && memcmp(text, word, size) == 0;
}

/* Whether the word is a reference, URL, path, address, version or digest: it has a slash, or a dot
 * or colon inside. Such words are no language: the image may be called "not-found:429". */
static bool is_name(const char *word, size_t size) {
        if (is_word(word, size, "i/o") || is_word(word, size, "text/html"))
                return false;
        if (memchr(word, '/', size))
                return true;

        for (size_t i = 0; i + 1 < size; i++)
                if ((word[i] == '.' || word[i] == ':') && isalnum((unsigned char) word[i + 1]))
                        return true;

        return false;
}

static void blank_words(char *text) {
        size_t size;

        for (char *word = text; *word; word += size) {
                word += strspn(word, " \t\r\n");
                size = strcspn(word, " \t\r\n");
                if (is_name(word, size))
                        memset(word, ' ', size);
        }
}

static void blank_quoted(char *text) {
        char *from, *to;

        for (from = strchr(text, '"'); from; from = strchr(to + 1, '"')) {
                to = strchr(from + 1, '"');
                if (!to)
                        return;
                memset(from, ' ', (size_t) (to - from + 1));
        }
}

/* A tag alone looks like any word, but is found where runtimes write it: "reading manifest TAG in
 * REPOSITORY" (CRI-O) and "status code [manifests TAG]: 404 Not Found" (containerd). */
static void blank_tag(char *text, const char *before, const char *end) {
        char *found;

        for (found = strstr(text, before); found; found = strstr(found, before)) {
                found += strlen(before);
                memset(found, ' ', strcspn(found, end));
        }
}

/* Leaves only the language of the text, in lower case. */
static void blank_names(char *text) {
        for (char *c = text; *c; c++)
                *c = (char) tolower((unsigned char) *c);

        blank_quoted(text);
        blank_tag(text, "reading manifest ", " ");
        blank_tag(text, "status code [", "]");
        blank_words(text);
}

/* Whether the text is from the runtime, not from gRPC when it could not reach the runtime. */
static bool is_about_pulling(const char *text) {
        return strstr(text, "pull") || strstr(text, "resolve reference") ||
               strstr(text, "registry");
}

PullReason pull_reason_from_error(const Error *error) {
        cleanup(free_p) char *text = NULL;

        if (error->kind == ERROR_CANCELED)
                return PULL_REASON_NO_PROGRESS;

        text = error->message ? strdup(error->message) : NULL;
        if (!text)
                return reason_from_kind(error->kind);

        blank_names(text);
        if (error->kind == ERROR_UNAVAILABLE && !is_about_pulling(text))
                return PULL_REASON_RUNTIME_UNAVAILABLE;

        for (size_t i = 0; i < N_RULES; i++)
                if (strstr(text, rules[i].words))
                        return rules[i].reason;

        return reason_from_kind(error->kind);
}

const char *pull_reason_to_string(PullReason reason) {
        assert(reason >= PULL_REASON_NONE && reason < _PULL_REASON_MAX);

        return reasons[reason].name;
}

PullReason pull_reason_from_string(const char *text) {
        for (PullReason reason = PULL_REASON_NONE; reason < _PULL_REASON_MAX; reason++)
                if (strcmp(reasons[reason].name, text) == 0)
                        return reason;

        return PULL_REASON_UNKNOWN;
}

PullRemedy pull_reason_remedy(PullReason reason) {
        assert(reason >= PULL_REASON_NONE && reason < _PULL_REASON_MAX);

        return reasons[reason].remedy;
}

bool pull_reason_is_refusal(PullReason reason, const char *text) {
        return reason == PULL_REASON_NOT_FOUND || reason == PULL_REASON_UNAUTHORIZED ||
               (reason == PULL_REASON_REGISTRY_UNREACHABLE && strstr(text, NO_SUCH_HOST));
}

const char *pull_reason_advice(PullReason reason) {
        assert(reason >= PULL_REASON_NONE && reason < _PULL_REASON_MAX);

        return reasons[reason].advice;
}
