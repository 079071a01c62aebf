/* Softmax attention of a few rows over a cache of keys and values in fp32, for AVX-512.

   A row's numbers are summed in the order of the keys' places, and keys that it does not see add exact zeros: so it has
   the same bits alone and among the rows of a chain, on any number of threads. Keys and values are read once for the
   query heads of one kv head. */

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))
#define TILE 8    /* queries that share a pass over keys */
#define SPAN 64   /* values that stay in the first cache while the queries pass */
#define MOST 256  /* numbers of a head */

typedef void (*parallel_t)(void (*)(void *), void *, unsigned, unsigned); /* GOMP_parallel of torch's own pool */

typedef struct {
    const float *q, *keys, *values, *mask; /* mask: (rows, length) to be added, or 0 */
    float *y;                              /* (rows, heads, size) */
    int64_t rows, heads, kv_heads, length, size;
    int64_t q_stride, kv_stride; /* between the rows of q, between the heads of a cache */
    int64_t causal;              /* row i sees keys 0…i */
    int64_t next, failed;
    float scale;
} task;

/* e^x for x <= 0; below what fp32 holds as a normal number it is 0 (as -inf gives). */
INLINE __m512 exponential(__m512 x) {
    const __mmask16 some = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_GE_OQ);
    const __mmask16 none = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __m512 whole = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
    __m512 rest = _mm512_fnmadd_ps(whole, _mm512_set1_ps(0.693145752f), x); /* ln 2 in two parts */
    rest = _mm512_fnmadd_ps(whole, _mm512_set1_ps(1.42860677e-6f), rest);
    __m512 sum = _mm512_set1_ps(1.0f / 720); /* Taylor; |rest| <= 0.35 leaves 2^-26 */
    const float terms[] = {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
    for (int at = 0; at < 6; at++)
        sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(terms[at]));
    return _mm512_mask_mov_ps(_mm512_maskz_scalef_ps(some, sum, whole), none, x);
}

/* Lane i is the sum of sums[i], halves before quarters for every one of them. */
INLINE __m512 folded(__m512 *sums) {
    for (int i = 0; i < 8; i++) {
        __m512 low = _mm512_shuffle_f32x4(sums[i], sums[i + 8], 0x44), high = _mm512_shuffle_f32x4(sums[i], sums[i + 8], 0xee);
        sums[i] = _mm512_add_ps(low, high); /* i in lanes 0…7, i + 8 above */
    }
    for (int i = 0; i < 4; i++) {
        __m512 low = _mm512_shuffle_f32x4(sums[i], sums[i + 4], 0x88), high = _mm512_shuffle_f32x4(sums[i], sums[i + 4], 0xdd);
        sums[i] = _mm512_add_ps(low, high); /* i, i + 8, i + 4, i + 12: four lanes each */
    }
    for (int i = 0; i < 2; i++) {
        __m512 low = _mm512_shuffle_ps(sums[i], sums[i + 2], 0x44), high = _mm512_shuffle_ps(sums[i], sums[i + 2], 0xee);
        sums[i] = _mm512_add_ps(low, high);
    }
    __m512 even = _mm512_shuffle_ps(sums[0], sums[1], 0x88), odd = _mm512_shuffle_ps(sums[0], sums[1], 0xdd);
    /* Lane 4 a + b is of sum 8 (a & 1) + 4 (a >> 1) + 2 (b & 1) + (b >> 1). */
    const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
    return _mm512_permutexvar_ps(order, _mm512_add_ps(even, odd));
}

INLINE void scored(const int N, const task *t, const float *q, const float *keys, const float *mask, int64_t seen,
                   int64_t at, float *scores, __m512 *most) {
    __m512 query[MOST / 16], sums[16];
#pragma GCC unroll 16
    for (int n = 0; n < N; n++)
        query[n] = _mm512_loadu_ps(q + 16 * n);
    const int64_t last = t->length - 1 - at;
#pragma GCC unroll 16
    for (int j = 0; j < 16; j++) {
        const float *key = keys + (at + (j < last ? j : last)) * t->size;
        sums[j] = _mm512_mul_ps(query[0], _mm512_loadu_ps(key));
#pragma GCC unroll 16
        for (int n = 1; n < N; n++)
            sums[j] = _mm512_fmadd_ps(query[n], _mm512_loadu_ps(key + 16 * n), sums[j]);
    }
    const __mmask16 within = seen - at >= 16 ? 0xffff : seen > at ? (1 << (seen - at)) - 1 : 0;
    __m512 score = _mm512_mul_ps(folded(sums), _mm512_set1_ps(t->scale));
    if (mask)
        score = _mm512_add_ps(score, _mm512_maskz_loadu_ps(within, mask + at));
    score = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), within, score);
    _mm512_storeu_ps(scores + at, score);
    *most = _mm512_max_ps(*most, score);
}

/* Adds so many values to the sums of M queries, whose weights lie `width` apart. */
INLINE void mixed(const int M, const int N, const float *values, const float *weights, int64_t width, int64_t count,
                  float (*y)[MOST]) {
    __m512 sums[2][MOST / 16];
#pragma GCC unroll 16
    for (int m = 0; m < M; m++)
#pragma GCC unroll 16
        for (int n = 0; n < N; n++)
            sums[m][n] = _mm512_loadu_ps(y[m] + 16 * n);
    for (int64_t j = 0; j < count; j++, values += 16 * N)
#pragma GCC unroll 2
        for (int m = 0; m < M; m++)
#pragma GCC unroll 16
            for (int n = 0; n < N; n++) {
                const __m512 weight = _mm512_set1_ps(weights[m * width + j]);
                sums[m][n] = _mm512_fmadd_ps(weight, _mm512_loadu_ps(values + 16 * n), sums[m][n]);
            }
#pragma GCC unroll 16
    for (int m = 0; m < M; m++)
#pragma GCC unroll 16
        for (int n = 0; n < N; n++)
            _mm512_storeu_ps(y[m] + 16 * n, sums[m][n]);
}

/* Of one kv head, `count` queries from the one at `first`; those of a row lie side by side. */
INLINE void tile(const int N, const task *t, int64_t head, int64_t first, int64_t count, float *scores) {
    const int64_t group = t->heads / t->kv_heads, width = (t->length + 15) / 16 * 16;
    const float *keys = t->keys + head * t->kv_stride, *values = t->values + head * t->kv_stride;
    __m512 most[TILE];
    float sums[TILE], y[TILE][MOST] = {0};
    for (int64_t i = 0; i < count; i++)
        most[i] = _mm512_set1_ps(-INFINITY);
    for (int64_t at = 0; at < t->length; at += 16)
        for (int64_t i = 0; i < count; i++) {
            const int64_t row = (first + i) / group, which = head * group + (first + i) % group;
            scored(N, t, t->q + row * t->q_stride + which * t->size, keys, t->mask ? t->mask + row * t->length : 0,
                   t->causal ? row + 1 : t->length, at, scores + i * width, &most[i]);
        }
    for (int64_t i = 0; i < count; i++) {
        const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(most[i]));
        __m512 sum = _mm512_setzero_ps();
        for (float *at = scores + i * width; at < scores + (i + 1) * width; at += 16) {
            __m512 weight = exponential(_mm512_sub_ps(_mm512_loadu_ps(at), top));
            _mm512_storeu_ps(at, weight);
            sum = _mm512_add_ps(sum, weight);
        }
        sums[i] = _mm512_reduce_add_ps(sum);
    }
    for (int64_t at = 0; at < t->length; at += SPAN) {
        const int64_t here = t->length - at < SPAN ? t->length - at : SPAN;
        int64_t i = 0;
        if (N < 16) /* as many as there are registers for */
            for (; i + 2 <= count; i += 2)
                mixed(2, N, values + at * t->size, scores + i * width + at, width, here, &y[i]);
        for (; i < count; i++)
            mixed(1, N, values + at * t->size, scores + i * width + at, width, here, &y[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = (first + i) / group, which = head * group + (first + i) % group;
#pragma GCC unroll 16
        for (int n = 0; n < N; n++)
            _mm512_storeu_ps(t->y + (row * t->heads + which) * t->size + 16 * n,
                             _mm512_div_ps(_mm512_loadu_ps(y[i] + 16 * n), _mm512_set1_ps(sums[i])));
    }
}

static void work(void *data) {
    task *t = data;
    const int64_t queries = t->rows * t->heads / t->kv_heads, tiles = (queries + TILE - 1) / TILE;
    float *scores = malloc(sizeof(float) * TILE * ((t->length + 15) / 16 * 16));
    if (!scores) {
        __atomic_store_n(&t->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t at; (at = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < tiles * t->kv_heads;) {
        const int64_t head = at / tiles, first = at % tiles * TILE;
        const int64_t count = queries - first < TILE ? queries - first : TILE;
        if (t->size == 64)
            tile(4, t, head, first, count, scores);
        else if (t->size == 128)
            tile(8, t, head, first, count, scores);
        else
            tile(16, t, head, first, count, scores);
    }
    free(scores);
}

/* 1 where memory ran out; `size` is 64, 128 or 256. */
int tandem_attend(parallel_t parallel, const float *q, const float *keys, const float *values, const float *mask,
                  float *y, int64_t rows, int64_t heads, int64_t kv_heads, int64_t length, int64_t size,
                  int64_t q_stride, int64_t kv_stride, int64_t causal, int64_t threads) {
    task t = {q, keys, values, mask, y, rows, heads, kv_heads, length, size, q_stride, kv_stride, causal, 0, 0,
              1.0f / sqrtf((float)size)};
    if (threads > 1)
        parallel(work, &t, (unsigned)threads, 0);
    else
        work(&t);
    return (int)t.failed;
}
