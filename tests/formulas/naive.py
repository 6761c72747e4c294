"""The ops themselves, written with loops over scalars, so that every product can be counted and the result checked."""

from itertools import product

import numpy as np


class Tally:
    """Counts the scalar products that go through it."""

    def __init__(self):
        self.products = 0

    def times(self, a, b):
        self.products += 1
        return a * b

    def matmul(self, a, b):
        """a [m, k] times b [k, n]."""
        out = np.zeros((a.shape[0], b.shape[1]), dtype=np.result_type(a, b))
        for i, j, p in product(range(a.shape[0]), range(b.shape[1]), range(a.shape[1])):
            out[i, j] += self.times(a[i, p], b[p, j])
        return out

    def affine(self, x, weight, bias=None):
        """One row x through weight [out, in]."""
        out = self.matmul(x[None], weight.T)[0]
        return out if bias is None else out + bias

    def conv(self, x, weight, stride, padding, dilation, groups):
        """x [n, c, *space], weight [out, c/groups, *kernel]; padding is read as zeros, product by product."""
        kernel = weight.shape[2:]
        space = [
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
        ]
        out = np.zeros((x.shape[0], weight.shape[0], *space))
        per_group = weight.shape[0] // groups
        for n, o, c in product(range(x.shape[0]), range(weight.shape[0]), range(weight.shape[1])):
            source = o // per_group * weight.shape[1] + c
            for at in product(*map(range, space)):
                for tap in product(*map(range, kernel)):
                    place = [
                        i * s + t * d - p for i, t, s, d, p in zip(at, tap, stride, dilation, padding, strict=True)
                    ]
                    inside = all(0 <= i < size for i, size in zip(place, x.shape[2:], strict=True))
                    value = x[(n, source, *place)] if inside else 0.0
                    out[(n, o, *at)] += self.times(value, weight[(o, c, *tap)])
        return out

    def conv_transpose(self, x, weight, stride, padding, output_padding, dilation, groups):
        """x [n, c, *space], weight [c, out/groups, *kernel]; what falls outside is multiplied, then dropped."""
        kernel = weight.shape[2:]
        space = [
            (size - 1) * s - 2 * p + d * (k - 1) + e + 1
            for size, k, s, p, d, e in zip(x.shape[2:], kernel, stride, padding, dilation, output_padding, strict=True)
        ]
        out = np.zeros((x.shape[0], weight.shape[1] * groups, *space))
        per_group = x.shape[1] // groups
        for n, c, o in product(range(x.shape[0]), range(x.shape[1]), range(weight.shape[1])):
            target = c // per_group * weight.shape[1] + o
            for at in product(*map(range, x.shape[2:])):
                for tap in product(*map(range, kernel)):
                    place = [
                        i * s + t * d - p for i, t, s, d, p in zip(at, tap, stride, dilation, padding, strict=True)
                    ]
                    value = self.times(x[(n, c, *at)], weight[(c, o, *tap)])
                    if all(0 <= i < size for i, size in zip(place, space, strict=True)):
                        out[(n, target, *place)] += value
        return out

    def attention(self, query, key, value, visible=None):
        """query [b, h, s, d], key and value [b, h/g, s, d]; scores that are not visible are computed, then hidden."""
        share = query.shape[1] // key.shape[1]
        out = np.zeros((*query.shape[:3], value.shape[3]))
        for b, h in product(range(query.shape[0]), range(query.shape[1])):
            scores = self.matmul(query[b, h], key[b, h // share].T) / query.shape[-1] ** 0.5
            if visible is not None:
                scores = np.where(visible, scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[b, h] = self.matmul(weights / weights.sum(-1, keepdims=True), value[b, h // share])
        return out

    def lstm_cell(self, x, state, weights):
        w_ih, w_hh, b_ih, b_hh, *projection = weights
        h, c = state
        i, f, g, o = np.split(self.affine(x, w_ih, b_ih) + self.affine(h, w_hh, b_hh), 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (self.affine(h, projection[0]) if projection else h), c

    def gru_cell(self, x, state, weights):
        w_ih, w_hh, b_ih, b_hh = weights
        (h,) = state
        r_x, z_x, n_x = np.split(self.affine(x, w_ih, b_ih), 3)
        r_h, z_h, n_h = np.split(self.affine(h, w_hh, b_hh), 3)
        r, z = sigmoid(r_x + r_h), sigmoid(z_x + z_h)
        n = np.tanh(n_x + r * n_h)
        return ((1 - z) * n + z * h,)

    def tanh_cell(self, x, state, weights):
        w_ih, w_hh, b_ih, b_hh = weights
        return (np.tanh(self.affine(x, w_ih, b_ih) + self.affine(state[0], w_hh, b_hh)),)

    def recurrent(self, cell, sequences, layers, zero_state):
        """Each sequence by itself, step by step; `layers` holds the weights of each direction of each layer."""
        outputs = []
        for rows in sequences:
            for directions in layers:
                read = []
                for backwards, weights in enumerate(directions):
                    state, made = zero_state, []
                    for x in rows[::-1] if backwards else rows:
                        state = cell(x, state, weights)
                        made.append(state[0])
                    read.append(made[::-1] if backwards else made)
                rows = [np.concatenate(parts) for parts in zip(*read, strict=True)]
            outputs.append(np.array(rows))
        return outputs


def sigmoid(x):
    return 1 / (1 + np.exp(-x))
