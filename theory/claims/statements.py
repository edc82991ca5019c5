"""The claims in words, with their proofs step by step: the table that `kofm claims` prints.

Numbering as in the project's theory page. A claim marked "paper" restates the paper (Redhardt, Akram, Schug,
"Scaling can lead to compositional generalization", NeurIPS 2025, arXiv 2507.07207) in our words; "kofm"
claims are this project's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from theory.claims import counts, decoding, gates, learning, products
from theory.claims.record import Claim, Step


def _proved(check: Callable[[], bool]) -> Step:
    """A step that says what its proof says: the first paragraph of the proof's docstring, so that the two
    cannot differ.
    """
    text = (check.__doc__ or "").strip().split("\n\n")[0]
    if not text:
        raise ValueError(f"{check.__name__}: a proof without a docstring says nothing")
    return Step(" ".join(text.split()), check)


def _by_hand(text: str) -> Step:
    return Step(f"by hand: {text}")


def _tested(text: str) -> Step:
    return Step(f"checked numerically by tests: {text}")


_HYPERTEACHER = "hyperteacher f(x, z) = ReLU(sum_m z_m (x Theta_m + b_m)) Omega, x in a box, at most K weights nonzero"
_FIXED = "K, N, H, O, the box, and a bound on |Theta|, |b|, |Omega|"
_FIXED_EPS = f"{_FIXED}, and eps"

_CLAIMS = (
    Claim(
        key="C1",
        title="Linear scaling (paper)",
        statement=(
            "For all M and eps > 0, on a compact input set, a ReLU MLP with O(1/sqrt(eps) + M) neurons "
            "approximates the hyperteacher to eps in the sup norm."
        ),
        source="paper, Theorem 3.1",
        assumptions=(_HYPERTEACHER, "weights in a bounded interval"),
        fixed=_FIXED,
        steps=(
            _by_hand("C4's N-route is such a network, and it needs no summand M: C1 follows from C4"),
            _proved(counts.shallow_rate),
        ),
        bounds=("shallow-N",),
    ),
    Claim(
        key="C2",
        title="khot: exact, linear in M",
        statement=(
            "For z in {0,1}^M two hidden layers of sum_m rank(Theta_m) + min(M, H) + H <= M min(N, H) + "
            "min(M, H) + H neurons compute the hyperteacher exactly."
        ),
        source="kofm, sharper than the paper's Theorem 3.1 for these weights",
        assumptions=(_HYPERTEACHER, "z_m in {0, 1}"),
        fixed=_FIXED,
        steps=(
            _proved(gates.gate),
            _proved(gates.gate_interval),
            _proved(gates.gate_nonnegative),
            _proved(gates.linear_forms),
            _by_hand(
                "what the gates and biases leave is linear in z; with a constant that makes it >= 0 on the "
                "(bounded) tasks it passes the first layer in one neuron a unit, or in one a module (z_m >= "
                "0), and the second layer is the task's ReLU"
            ),
            _proved(counts.rank_form),
            _proved(counts.khot_is_linear),
            _tested("the built network has this many neurons and equals the family exactly in rationals"),
        ),
        bounds=("exact-khot", "exact-khot-rank"),
    ),
    Claim(
        key="C3",
        title="Weights on a grid: exact, linear in M",
        statement=(
            "For z_m in {0 = s_0 < .. < s_L} two hidden layers of M L min(N, H) + M (L - 1) + min(M, H) + H "
            "neurons compute the hyperteacher exactly. Between two levels the gated value is at most W d/4 "
            "off, d their gap, W = hi - lo the range of v."
        ),
        source="kofm, sharper than the paper's Theorem 3.1 for these weights",
        assumptions=(_HYPERTEACHER, "z_m on a known grid of L levels and 0"),
        fixed=f"{_FIXED}, and the levels",
        steps=(
            _proved(gates.grid_term),
            _proved(gates.grid_telescopes),
            _proved(gates.grid_written_out),
            _proved(gates.grid_between_levels),
            _proved(gates.grid_slopes),
            _proved(counts.grid_is_linear),
            _tested("the built network has this many neurons and equals the family exactly in rationals"),
        ),
        bounds=("exact-grid",),
    ),
    Claim(
        key="C4",
        title="Continuous weights, two hidden layers",
        statement=(
            "A product costs 2(n - 1) neurons for the error c/n^2 (n odd), and 2n - 1 plus one a module if "
            "the weight is in {0} + [lo, hi] with lo >= hi/2. On the M-route a network to eps is linear in "
            "M; on the N-route its O(1/sqrt(eps)) neurons do not depend on M (its weights are linear in M)."
        ),
        source="kofm, sharper than the paper's Theorem 3.1",
        assumptions=(_HYPERTEACHER, "z_m in {0} + [lo, hi]; lo >= hi/2 wherever the split product is used"),
        fixed=_FIXED_EPS,
        steps=(
            _proved(products.chord_error),
            _proved(products.square_error),
            _proved(products.odd_pieces_are_flat),
            _proved(products.shifted_square),
            _proved(products.polarisation),
            _proved(products.product_error_attained),
            _proved(products.product_exact_on_axes),
            _proved(products.support_gate),
            _proved(products.split_on_support),
            _proved(products.split_slopes),
            _proved(products.split_off),
            _proved(products.split_needs_half),
            _proved(counts.allocation_stationary),
            _proved(counts.allocation_count),
            _proved(counts.equal_shares),
            _proved(counts.split_count),
            _proved(counts.interval_count),
            _proved(counts.shallow_rate),
            _by_hand(
                "modules that are off err by 0 on the M-route, so only K products err at once; ReLU is "
                "1-Lipschitz, so errors e_h of the units give at most sum_h |Omega_ho| e_h <= omega max_h "
                "e_h at output o"
            ),
            _by_hand(
                "on the N-route w_hi(z) = sum_m z_m Theta_mih has at most K terms, so its range does not grow with M"
            ),
            _tested("the measured error reaches the guaranteed one for single products, and never exceeds it"),
        ),
        bounds=(
            "product-interval",
            ("product-split"),
            ("shallow-interval"),
            ("shallow-split"),
            ("shallow-M"),
            ("shallow-N"),
        ),
    ),
    Claim(
        key="C5",
        title="Continuous weights, deep",
        statement=(
            "With radices q_1 .. q_D of product Q a product costs 2 sum_k q_k neurons in D layers for the "
            "error c/Q^2: O(R log(1/eps)) neurons and O(log(1/eps)) layers for R products."
        ),
        source="kofm; radix 2 is Yarotsky (Neural Networks 94, 2017), Proposition 2",
        assumptions=(_HYPERTEACHER, "the bilinear part is a sum of R products of linear forms"),
        fixed=f"{_FIXED}, and R where the route's R does not grow with M",
        steps=(
            _proved(products.radix_step),
            _proved(products.radix_slopes),
            _proved(products.radix_hinges),
            _proved(products.deep_square_error),
            _proved(products.deep_product_error),
            _proved(products.radix_two_start),
            _proved(counts.deep_steps),
            _proved(counts.deep_rate),
            _by_hand(
                "each layer passes on one accumulator a unit, which holds what is affine in x and z and the "
                "steps so far, shifted to be >= 0; the layer after the last step is the task's ReLU"
            ),
            _tested("the measured error of a deep product reaches c/Q^2"),
        ),
        bounds=("product-deep", "deep", "deep-eps"),
    ),
    Claim(
        key="C6",
        title="Rank route",
        statement=(
            "If Theta is a sum of R rank-one tensors, R products serve all modules and units, and the deep "
            "count is linear in R; almost every Theta needs R >= M N H/(M + N + H - 2). A residual of the "
            "decomposition enters the error."
        ),
        source="kofm; rank by counting degrees of freedom is classical",
        assumptions=(
            _HYPERTEACHER,
            ("a decomposition Theta = sum_r a_r b_r c_r is known, exactly or with its residual"),
        ),
        fixed=_FIXED_EPS,
        steps=(
            _proved(counts.rank_one_freedom),
            _by_hand(
                "for any size: at (e_1, e_1, e_1) the tangent space is spanned by e_i11, e_1j1, e_11k, which"
                " are M + (N - 1) + (H - 1) tensors"
            ),
            _proved(counts.rank_terms),
            _by_hand("the image of a set of smaller dimension under a polynomial map contains no open set"),
            _proved(counts.deep_is_linear_in_terms),
            _tested(
                "alternating least squares finds decompositions above this floor, with a residual that enters the bound"
            ),
        ),
        bounds=("rank-terms", "deep"),
    ),
    Claim(
        key="C7",
        title="The memorising network",
        statement=(
            "For z in {0,1}^M one hidden layer of T H neurons, T = sum_{k=1..K} binomial(M, k), computes the"
            " hyperteacher exactly: exponential in K."
        ),
        source="kofm",
        assumptions=(
            _HYPERTEACHER,
            "z_m in {0, 1}, one modulated layer",
        ),
        fixed=_FIXED,
        steps=(
            _proved(gates.indicator),
            _by_hand("the readout sums over all supports, all but z's own off (at z = 0 all, where f = 0)"),
            _proved(counts.memorise_form),
            _proved(counts.support_count),
            _by_hand("T >= binomial(M, K) >= (M/K)^K: each factor (M - i)/(K - i) is at least M/K"),
            _by_hand(
                "no claim that every memoriser is this large: P points can be stored in O(sqrt P) parameters"
                " (arXiv 2110.03187)"
            ),
        ),
        bounds=("memorise",),
    ),
    Claim(
        key="C8",
        title="Lower bounds",
        statement=(
            "(a) A ReLU network with D hidden layers and error eps on a segment of length l where |f''| >= "
            "kappa has at least D (((l/4) sqrt(kappa/eps))^(1/D) - 1) neurons. (b) One hidden layer that "
            "computes W(z) x exactly for z in {0, e_1 .. e_M} has at least CP-rank(Theta) >= min(M, N H) "
            "neurons. (c) Exact representation of an open set of families takes M N H + M H + O H - H "
            "parameters."
        ),
        source="kofm; (a) by counting pieces, as Telgarsky (2016) and Yarotsky (2017) do",
        assumptions=(
            "(a) continuous z, f twice differentiable on the segment",
            "(b) one hidden layer, exact on an open set of x, the M x NH flattening of Theta of full rank",
            "(c) parameters enter the represented function continuously (no bit extraction)",
        ),
        fixed="(a) l, kappa; (b) N, H; (c) N, H, O",
        steps=(
            _proved(counts.curvature),
            _proved(counts.piece_count),
            _by_hand(
                "a layer of w neurons cuts each piece of the layers before it at most w times, so a network "
                "has at most prod_l (1 + w_l) pieces"
            ),
            _proved(counts.layers_balance),
            _by_hand("so prod_l (1 + w_l) <= (1 + U/D)^D: repeat the two-layer step (arithmetic and geometric mean)"),
            _proved(counts.layers_invert),
            _by_hand(
                "(a) at D = 2 the floor grows as eps^(-1/4) and C4's two layers cost eps^(-1/2): one layer's"
                " gap; C5 meets log(1/eps) up to constants"
            ),
            _by_hand(
                "(b) at an x with no kink, d/dx of f(x, e_m) - f(x, 0) is sum_j ([j on at e_m] - [j on at "
                "0]) p_j u_j = Theta_m: a decomposition of Theta into as many rank-one terms as there are "
                "neurons; the M x NH flattening has rank min(M, NH)"
            ),
            _by_hand(
                "(b) fails with free depth and B-bit weights: the bits of w_hi(z) can be extracted and "
                "gated, O(N H (B + log K)) neurons whatever M. Show neurons, parameters, bits and the "
                "largest weight together"
            ),
            _proved(gates.positive_scaling),
            _by_hand(
                "(c) a continuous map from fewer parameters onto an open set would contradict the invariance"
                " of dimension (smooth case: Sard)"
            ),
            _proved(counts.freedom_ratio),
        ),
        bounds=("pieces", "one-layer"),
    ),
    Claim(
        key="C9",
        title="Being right on tasks makes them decodable",
        statement=(
            "If a network is right with probability 1 - delta over (z, encoding, x), a decoder recovers z from the "
            "encoding with probability 1 - sqrt(delta): so the paper, as paraphrased; it needs separation, Delta = min "
            "over z != z' of P_x(f_z != f_z') >= 2 sqrt(delta). Sharper: naming the task whose function is nearest to "
            "the network's fails with probability at most 2 delta/Delta, for regression at most 4 MSE/D^2 (MSE summed "
            "over outputs, D the smallest L2 distance of two tasks). No decoder improves on 2 delta/Delta for every "
            "family; the best one on squares has 2 MSE/D^2."
        ),
        source="paper, Theorem 4.1; kofm, the separation and the sharper form",
        assumptions=(
            "a set of tasks with smallest distance above 0: for continuous z D is 0, while Delta may be positive",
            "x from one distribution, the same for all tasks; the decoder may evaluate network and tasks on it",
        ),
        fixed="Delta or D",
        steps=(
            _proved(decoding.without_separation),
            _proved(decoding.one_of_two_is_missed),
            _proved(decoding.squares_between_two),
            _proved(decoding.failing_means_far),
            _proved(decoding.markov),
            _proved(decoding.with_separation),
            _proved(decoding.ties_attain),
            _proved(decoding.no_decoder_does_better),
            _proved(decoding.best_decoder_for_squares),
            _by_hand("the inequalities hold for each x and encoding, hence for their means over both"),
            _proved(decoding.continuous_weights),
            _tested("both sides on networks of different quality; Delta and D exactly, in rationals, for one input"),
        ),
    ),
    Claim(
        key="C11",
        title="Deep hyperteachers: exact",
        statement=(
            "With D modulated layers of widths H_1 .. H_D, 2D hidden layers compute the task exactly: for "
            "khot M min(N, H_1) + sum_{l>1} M H_l gates, sum_l H_l ReLUs, 2(D - 1) M + min(M, H_D) carriers;"
            " on a grid L gates for one and M (L - 1) more a layer."
        ),
        source="kofm",
        assumptions=(
            "several modulated layers, then a readout",
            ("z_m in {0, 1}, or on a known grid"),
            "x in a box",
        ),
        fixed="K, D, the widths, the box, and a bound on the weights",
        steps=(
            _proved(gates.carrying),
            _by_hand(
                "layer by layer: each is C2 or C3 on the output of the one before, whose range is bounded "
                "since the box is"
            ),
            _proved(counts.layered_count),
            _by_hand("the ranges A_mh, and with them the rounding error, grow with the product of the layers' norms"),
            _tested("the built network has at most this many neurons and equals the family exactly in rationals"),
        ),
        bounds=("layers-khot", "layers-grid"),
    ),
    Claim(
        key="C12",
        title="Compositional preferences: exact action values",
        statement=(
            "With a reward linear in z and finitely many max-plus backups, gates and maxima compute the "
            "action values exactly for every task."
        ),
        source="kofm",
        assumptions=(
            "z_m in {0, 1} or on a known grid",
            ("finite horizon and state set, deterministic transitions"),
        ),
        fixed="states, actions, horizon, discount",
        steps=(
            _proved(gates.maximum),
            _proved(gates.absolute_value),
            _by_hand(
                "a backup is Q(s, a) = r(s, a) + discount max_b Q(s', b): affine maps and maxima of pairs, unrolled"
            ),
            _tested(
                "the action is the first a with Q_a >= max - tau, tau between twice the error of Q and the smallest gap"
            ),
        ),
    ),
    Claim(
        key="C13",
        title="Words over affine generators: a chain",
        statement=(
            "The product g_{z_K} o .. o g_{z_1} of affine maps of R^d, each letter a one-hot of M, takes K "
            "hidden layers and at most K M d gates and M K (K - 1)/2 carriers, exactly, while there are M^K "
            "words."
        ),
        source="kofm",
        assumptions=("each z_k one-hot", "generators affine, the starting state in a box"),
        fixed="K, d, the box, and a bound on the generators",
        steps=(
            _proved(gates.one_hot_gates),
            _by_hand(
                "letter k is gated in layer k on the state, which is affine in layer k - 1; the last state "
                "is affine in layer K"
            ),
            _proved(counts.chain_count),
            _by_hand("M^K words: K independent choices of M letters"),
            _tested("the built network equals the product of the matrices exactly in rationals"),
        ),
        bounds=("chain",),
    ),
    Claim(
        key="C14",
        title="Decodable is neither needed for generalising nor enough",
        statement=(
            "'A network generalises if and only if its hidden layers decode the task linearly' is false as a theorem. "
            "Any network has a twin with the same outputs whose every hidden layer gives z linearly. And there are "
            "families for which the exact network is right on all tasks while its last hidden layer, for a fresh x, is "
            "independent of which modules are active. Its first hidden layer gives z_m with R2 >= (1 - q)/(4/3 - q), q "
            "= P(z_m = 1); a layer of few neurons cannot give much, whatever it holds."
        ),
        source="kofm",
        assumptions=(
            _HYPERTEACHER,
            "for the exact network z_m in {0, 1} and every module has a form of x (Theta_m not 0)",
            "x uniform on a box; drawn for each task anew unless said to be shared",
        ),
        fixed="the protocol: layer, number of tasks, penalty, fresh or shared x, H against M",
        steps=(
            _proved(learning.passing_through),
            _proved(learning.gate_decodes),
            _by_hand("v <= A^2/3 for any number of inputs: the cross terms 2 |w_i w_j| r_i r_j are >= 0"),
            _by_hand(
                "where M <= H, z itself is among the carriers of the first hidden layer, which then gives z with R2 = 1"
            ),
            _proved(learning.last_layer_is_silent),
            _by_hand(
                "for any M and any exchangeable x: a permutation of the modules that maps S to S' leaves the law of x "
                "and takes sum_S x_m to sum_S' x_m; the 2^M - 1 tasks are different functions all the same"
            ),
            _by_hand(
                "w numbers predict a part of z whose covariance C has rank w and C <= cov z, so tr C is at most the "
                "sum of the w largest eigenvalues of cov z (Weyl); for exchangeable modules these are the variance "
                "minus the covariance on vectors of sum 0, and the variance plus M - 1 covariances on (1, .., 1)"
            ),
            _tested("R2 of every layer of exact, untrained and trained networks, and of z passed through"),
        ),
    ),
    Claim(
        key="C15",
        title="How few tasks can be enough",
        statement=(
            "A task z* outside the span of the training tasks is not determined by them: a second hyperteacher agrees "
            "with the first on all training tasks, for every x, and differs on z*. So all tasks together need M "
            "training tasks at least, on ceil(M/K) supports at least (M if weights are 0 or 1). Compositional and "
            "connected support needs ceil((M-1)/(K-1)) >= ceil(M/K) supports, and a chain has no more. Neither implies "
            "the other: unweighted pairs on a connected bipartite graph satisfy both conditions and have rank M - 1, "
            "so that no training on them settles pairs within a side; tasks of one module each span everything and "
            "need not determine any pair."
        ),
        source="kofm",
        assumptions=(
            _HYPERTEACHER,
            "the learner knows that the target is a hyperteacher of this shape, and nothing else",
            "a readout and a scale that are not 0; K >= 2 for connected support",
        ),
        fixed="M and K",
        steps=(
            _proved(learning.twins_agree),
            _by_hand("v with v . z = 0 on training tasks and v . z* != 0 exists exactly if z* is not in their span"),
            _proved(learning.twins_differ),
            _by_hand(
                "the tasks span R^M; tasks on one support of k modules span at most k dimensions, and k of them do if "
                "weights have two values (one task with the lower value, k - 1 with one weight raised)"
            ),
            _by_hand("each support adds at most K - 1 to the modules already joined, and at most K to those seen"),
            _proved(learning.chain_attains_the_floor),
            _proved(learning.rank_of_pairs),
            _by_hand(
                "for any M: v orthogonal to all pairs has v_i = -v_j along each, so it alternates on every path; an "
                "odd cycle forces v = -v = 0, and without one the two sides' +1 and -1 are orthogonal to all"
            ),
            _proved(learning.span_is_not_enough),
            _tested(
                "twins equal in rationals on training tasks and different on z*; floors against enumeration; ranks"
            ),
        ),
    ),
)

CLAIMS: Mapping[str, Claim] = {claim.key: claim for claim in _CLAIMS}
