/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/image-ref.h"

#include <string.h>

#include "agent/base/quote.h"
#include "agent/base/slice.h"
#include "agent/base/text.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define WORD LOWER UPPER DIGITS "_"

#define HUB "docker.io"
#define HUB_LEGACY "index.docker.io"
#define HUB_OFFICIAL "library/"

static const struct {
        const char *prefix;
        size_t n_digits;
} algorithms[] = {
        { "sha256:", 64 },
        { "sha384:", 96 },
        { "sha512:", 128 },
};

#define ID_ALGORITHM "sha256:"

/* An unchecked text, cut in pieces. A missing piece has no data. */
typedef struct Parts {
        Slice name;
        Slice tag;
        Slice digest;
} Parts;

/* Checks a host name: its labels have letters and digits, and dashes inside. */
static const char *check_host(Slice host) {
        if (slice_starts_with(host, "[")) {
                const char *end = slice_find(host, ']');
                Slice address = slice_skip(host, 1);

                if (end != host.data + host.size - 1 || address.size == 1)
                        return "the registry's IPv6 address lacks its closing bracket or is empty";

                address.size--;
                if (!slice_has_only(address, DIGITS "abcdefABCDEF:"))
                        return "the registry's IPv6 address may have hexadecimal digits and "
                               "colons only";
                return NULL;
        }

        for (;;) {
                const char *dot = slice_find(host, '.');
                Slice rest = { .data = NULL };

                if (dot)
                        rest = slice_cut(&host, dot);
                if (host.size == 0)
                        return "a part of the registry's host name is empty";
                if (!slice_has_only(host, LOWER UPPER DIGITS "-"))
                        return "the registry's host name may have letters, digits, dashes and "
                               "dots only";
                if (host.data[0] == '-' || host.data[host.size - 1] == '-')
                        return "a part of the registry's host name starts or ends with a dash";
                if (!dot)
                        return NULL;

                host = rest;
        }
}

static const char *check_registry(Slice registry) {
        const char *colon = slice_find_last(registry, ':');

        if (colon && !memchr(colon, ']', registry.size - (size_t) (colon - registry.data))) {
                Slice port = slice_cut(&registry, colon);

                if (port.size == 0 || !slice_has_only(port, DIGITS))
                        return "the registry's port is not a number";
        }

        return check_host(registry);
}

/* Words of a component are held together by one dot, one or two underscores, or any dashes. */
static const char *check_component(Slice component) {
        if (component.size == 0)
                return "a part of the repository between slashes is empty";
        if (slice_has_any(component, UPPER))
                return "the repository must be in lower case";
        if (!slice_has_only(component, LOWER DIGITS "._-"))
                return "the repository may have lower case letters, digits, and the separators "
                       "\".\", \"_\" and \"-\" only";

        for (;;) {
                size_t n_word, n_separator;

                n_word = slice_span(component, LOWER DIGITS);
                if (n_word == 0)
                        return "a part of the repository starts or ends with a separator";

                component = slice_skip(component, n_word);
                if (component.size == 0)
                        return NULL;

                n_separator = slice_span(component, "._-");
                if (n_separator != slice_span(component, "-") && n_separator != 1 &&
                    (n_separator != 2 || !slice_starts_with(component, "__")))
                        return "the repository has separators in a row that may not be";

                component = slice_skip(component, n_separator);
        }
}

static const char *check_repository(Slice repository) {
        for (;;) {
                const char *slash = slice_find(repository, '/');
                const char *problem;
                Slice rest = { .data = NULL };

                if (slash)
                        rest = slice_cut(&repository, slash);

                problem = check_component(repository);
                if (problem || !slash)
                        return problem;

                repository = rest;
        }
}

static const char *check_tag(Slice tag) {
        if (tag.size == 0)
                return "the tag is empty";
        if (tag.size >= IMAGE_TAG_SIZE)
                return "the tag is longer than 128 characters";
        if (!slice_has_only(tag, WORD ".-"))
                return "the tag may have letters, digits, \"_\", \".\" and \"-\" only";
        if (!slice_span(tag, WORD))
                return "the tag starts with a separator";

        return NULL;
}

static const char *check_digest(Slice digest) {
        for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
                if (!slice_starts_with(digest, algorithms[i].prefix))
                        continue;

                digest = slice_skip(digest, strlen(algorithms[i].prefix));
                if (!slice_has_only(digest, DIGITS "abcdef"))
                        return "the digest may have lower case hexadecimal digits only";
                if (digest.size != algorithms[i].n_digits)
                        return "the digest has not as many digits as its algorithm makes";
                return NULL;
        }

        return "the digest does not start with \"sha256:\", \"sha384:\" or \"sha512:\"";
}

static bool is_image_id(Slice text) {
        return text.size == 64 && slice_has_only(text, DIGITS "abcdef");
}

/* Finds mistakes that would otherwise be reported as a strange host name or tag. */
static const char *check_text(Slice text) {
        if (text.size == 0)
                return "it is empty";
        if (slice_has_any(text, " \t\r\n\v\f"))
                return "it has a blank in it";
        if (memmem(text.data, text.size, "://", 3))
                return "it must not start with a scheme such as \"https://\"";
        if (is_image_id(text))
                return "this is the ID of an image, not its name";

        return NULL;
}

/* Whether the first component of a name is a registry and not a part of the repository. */
static bool is_registry(Slice component) {
        return slice_equal(component, "localhost") || slice_has_any(component, ".:" UPPER);
}

static bool is_docker_hub(Slice registry) {
        return slice_equal(registry, HUB) || slice_equal(registry, HUB_LEGACY);
}

static void fill(char *to, Slice a, Slice b) {
        char *end;

        end = mempcpy(to, a.data, a.size);
        end = mempcpy(end, b.data, b.size);
        *end = '\0';
}

/* Fills in registry and repository. */
static const char *read_name(Slice name, ShortNames short_names, ImageRef *ref) {
        Slice registry = slice(short_names == SHORT_NAMES_HUB ? HUB : ""), official = slice("");
        const char *slash = slice_find(name, '/');
        const char *problem = NULL;

        if (slash && is_registry((Slice){ name.data, (size_t) (slash - name.data) })) {
                Slice repository = slice_cut(&name, slash);

                registry = name;
                name = repository;
                problem = check_registry(registry);
        }

        problem = problem ?: check_repository(name);
        if (!problem && !registry.size && is_image_id(name))
                problem = "this is the ID of an image, not its name";
        if (problem)
                return problem;

        if (is_docker_hub(registry)) {
                registry = slice(HUB);
                if (!slice_find(name, '/'))
                        official = slice(HUB_OFFICIAL);
        }

        if (registry.size + 1 + official.size + name.size >= IMAGE_NAME_SIZE)
                return "the name is longer than 255 characters";

        fill(ref->registry, registry, slice(""));
        fill(ref->repository, official, name);
        return NULL;
}

/* Fills in tag and digest. */
static const char *read_version(Slice tag, Slice digest, ImageRef *ref) {
        const char *problem = NULL;

        if (tag.data)
                problem = check_tag(tag);
        if (!problem && digest.data)
                problem = check_digest(digest);
        if (problem)
                return problem;

        if (tag.data)
                fill(ref->tag, tag, slice(""));
        else if (!digest.data)
                fill(ref->tag, slice("latest"), slice(""));
        if (digest.data)
                fill(ref->digest, digest, slice(""));
        return NULL;
}

/* Cuts tag and digest off the name. A colon before the last slash belongs to a registry's port. */
static Parts split(Slice text) {
        Parts parts = { .name = text };
        const char *at, *slash, *colon;

        at = slice_find(parts.name, '@');
        if (at)
                parts.digest = slice_cut(&parts.name, at);

        slash = slice_find_last(parts.name, '/');
        colon = slice_find_last(parts.name, ':');
        if (colon && (!slash || colon > slash))
                parts.tag = slice_cut(&parts.name, colon);

        return parts;
}

ShortNames short_names_of(const char *runtime_name) {
        return strcmp(runtime_name, "cri-o") == 0 ? SHORT_NAMES_SEARCHED : SHORT_NAMES_HUB;
}

int image_ref_parse(const char *text, ShortNames short_names, ImageRef *ret, Error *reterr) {
        Parts parts = split(slice(text));
        ImageRef ref = { .tag = "" };
        const char *problem;
        char quoted[QUOTE_SIZE];

        problem = check_text(slice(text)) ?:
                  read_name(parts.name, short_names, &ref) ?:
                  read_version(parts.tag, parts.digest, &ref);
        if (problem)
                return error_set(reterr, ERROR_INVALID, "invalid image reference %s: %s",
                                 quote(text, quoted), problem);

        *ret = ref;
        return 0;
}

int image_ref_from_node_image(const char *name, const char *tag, ShortNames short_names,
                              ImageRef *ret, Error *reterr) {
        Parts parts = split(slice(name));
        Slice none = { .data = NULL };
        ImageRef ref = { .tag = "" };
        const char *problem;
        char quoted[QUOTE_SIZE];

        problem = check_text(slice(name));
        if (!problem && (parts.tag.data || parts.digest.data))
                problem = "a tag or digest does not belong in the name";
        if (!problem)
                problem = read_name(parts.name, short_names, &ref);
        if (problem)
                return error_set(reterr, ERROR_INVALID, "invalid image name %s: %s",
                                 quote(name, quoted), problem);

        problem = strchr(tag, ':') ? read_version(none, slice(tag), &ref)
                                   : read_version(slice(tag), none, &ref);
        if (problem)
                return error_set(reterr, ERROR_INVALID, "invalid image tag %s: %s",
                                 quote(tag, quoted), problem);

        *ret = ref;
        return 0;
}

const char *image_ref_tag_or_digest(const ImageRef *ref) {
        return ref->digest[0] ? ref->digest : ref->tag;
}

bool image_ref_is_same_repository(const ImageRef *a, const ImageRef *b) {
        return strcmp(a->registry, b->registry) == 0 && strcmp(a->repository, b->repository) == 0;
}

bool image_ref_equal(const ImageRef *a, const ImageRef *b) {
        return image_ref_is_same_repository(a, b) &&
               strcmp(image_ref_tag_or_digest(a), image_ref_tag_or_digest(b)) == 0;
}

bool image_ref_is_searched(const ImageRef *ref) {
        return !ref->registry[0];
}

bool image_ref_may_resolve_to(const ImageRef *searched, const ImageRef *full) {
        size_t size = strlen(full->repository), n = strlen(searched->repository);
        const char *tail = full->repository + size - n;

        return n <= size && strcmp(tail, searched->repository) == 0 &&
               (n == size || tail[-1] == '/') &&
               strcmp(image_ref_tag_or_digest(searched), image_ref_tag_or_digest(full)) == 0;
}

/* Returns the repository without the parts that can be left out without naming another image, or
 * NULL if none can: "docker.io/" stays where the next part looks like a registry, and "library/"
 * where the rest looks like an ID. */
static const char *familiar_repository(const ImageRef *ref) {
        Slice repository = slice(ref->repository), first = repository;

        if (!slice_equal(slice(ref->registry), HUB))
                return NULL;

        if (slice_starts_with(repository, HUB_OFFICIAL)) {
                Slice rest = slice_skip(repository, strlen(HUB_OFFICIAL));

                if (!slice_find(rest, '/') && !is_image_id(rest))
                        return rest.data;
        }

        (void) slice_cut(&first, slice_find(first, '/'));
        return is_registry(first) ? NULL : ref->repository;
}

static char separator(const ImageRef *ref) {
        return ref->digest[0] ? '@' : ':';
}

/* Returns the separator of registry and repository. */
static const char *slash_of(const ImageRef *ref) {
        return image_ref_is_searched(ref) ? "" : "/";
}

int image_ref_canonical_name(const ImageRef *ref, char **ret) {
        return text_format(ret, "%s%s%s", ref->registry, slash_of(ref), ref->repository);
}

int image_ref_familiar_name(const ImageRef *ref, char **ret) {
        const char *familiar = familiar_repository(ref);

        return familiar ? text_copy(familiar, ret) : image_ref_canonical_name(ref, ret);
}

int image_ref_shown_name(const ImageRef *ref, ShortNames short_names, char **ret) {
        return short_names == SHORT_NAMES_HUB ? image_ref_familiar_name(ref, ret)
                                              : image_ref_canonical_name(ref, ret);
}

int image_ref_canonical_reference(const ImageRef *ref, char **ret) {
        return text_format(ret, "%s%s%s%c%s", ref->registry, slash_of(ref), ref->repository,
                           separator(ref), image_ref_tag_or_digest(ref));
}

int image_ref_join(const char *name, const char *tag, char **ret) {
        return text_format(ret, "%s%c%s", name, strchr(tag, ':') ? '@' : ':', tag);
}

/* Returns the digits of an ID, or any other text unchanged. */
static Slice id_digits(const char *text) {
        Slice id = slice(text);

        return slice_starts_with(id, ID_ALGORITHM) ? slice_skip(id, strlen(ID_ALGORITHM)) : id;
}

bool image_id_is_valid(const char *text) {
        return is_image_id(id_digits(text));
}

bool image_id_equal(const char *a, const char *b) {
        return a && b && slice_equal(id_digits(a), id_digits(b).data);
}

int image_id_normalize(const char *id, char **ret) {
        return text_format(ret, "%s%s", image_id_is_valid(id) ? ID_ALGORITHM : "",
                           image_id_is_valid(id) ? id_digits(id).data : id);
}
