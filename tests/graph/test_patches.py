"""Graphs of similar patches: edges and features beside what the definitions say, pixel by pixel."""

import pytest
import torch

from jsem_pyg.graph import patch_graph


def picture(channels=2, height=7, width=9, dtype=torch.float32):
    return torch.rand(channels, height, width, generator=torch.Generator().manual_seed(0)).to(dtype)


def mean_around(values, y, x, radius):
    """The mean of [C, H, W] in a square, of what lies inside."""
    return values[
        :, max(y - radius, 0) : y + radius + 1, max(x - radius, 0) : x + radius + 1
    ].mean()


def patch_distance(image, start, end, radius):
    """The mean squared difference of two patches, of what lies inside for both."""
    total = []
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            places = [(start[0] + dy, start[1] + dx), (end[0] + dy, end[1] + dx)]
            if all(0 <= y < image.size(1) and 0 <= x < image.size(2) for y, x in places):
                (a, b), (c, d) = places
                total.append((image[:, a, b] - image[:, c, d]).square().mean())
    return torch.stack(total).mean()


def blurred(image):
    padded = torch.nn.functional.pad(image, (1, 1, 1, 1), mode="replicate")
    weights = torch.tensor([1.0, 2.0, 1.0], dtype=image.dtype) / 4
    patches = padded.unfold(1, 3, 1).unfold(2, 3, 1)
    return torch.einsum("chwyx,y,x->chw", patches, weights, weights)


@pytest.mark.parametrize("channels", [1, 2])
def test_edges_are_the_nearest_patches_and_the_grid(channels):
    image = picture(channels)
    edge_index, _ = patch_graph(image, 0.2, k=3, window=2, radius=1)
    places = [(y, x) for y in range(7) for x in range(9)]
    expected = set()
    for i, (y, x) in enumerate(places):
        near = []
        for j, (v, u) in enumerate(places):
            apart = max(abs(y - v), abs(x - u))
            if apart == 1:
                expected.add((i, j))
            if 0 < apart <= 2:
                near.append((float(patch_distance(image, (y, x), (v, u), 1)), j))
        for _, j in sorted(near)[:3]:
            expected |= {(i, j), (j, i)}
    assert set(map(tuple, edge_index.t().tolist())) == expected
    assert edge_index.size(1) == len(expected)


def test_features_are_what_the_definition_says():
    image, noise = picture(dtype=torch.float64), 0.2
    edge_index, attr = patch_graph(image, noise, k=2, window=3, radius=1)
    half = edge_index.size(1) // 2
    assert torch.equal(edge_index[:, half:], edge_index[:, :half].flip(0))
    assert torch.equal(attr[half:], attr[:half])
    for edge in range(0, half, 17):
        ends = [divmod(int(node), 9) for node in edge_index[:, edge]]
        expected = []
        for guide, sigma in ((image, noise), (blurred(image), 0.375 * noise)):
            expected += [patch_distance(guide, *ends, r) / (2 * sigma**2) for r in range(2)]
            centred = guide - guide.mean((1, 2), keepdim=True)
            spread = [
                sum(
                    mean_around(c[None] ** 2, *end, 2) - mean_around(c[None], *end, 2) ** 2
                    for c in centred
                )
                / len(centred)
                for end in ends
            ]
            expected += [each / sigma**2 for each in (max(spread), min(spread))]
        (y, x), (v, u) = ends
        length = ((y - v) ** 2 + (x - u) ** 2) ** 0.5
        expected = (torch.stack(expected) + 0.01).log()
        torch.testing.assert_close(attr[edge, :8], expected, rtol=1e-8, atol=1e-8)
        told = torch.tensor([length, float(length < 1.5)], dtype=attr.dtype)
        torch.testing.assert_close(
            attr[edge, 8:], torch.stack([told[0].log(), told[1]]), rtol=1e-6, atol=1e-6
        )


def test_means_the_same_in_other_units_and_at_another_level():
    image = picture(dtype=torch.float64)
    edge_index, attr = patch_graph(image, 0.2, k=3)
    other_index, other_attr = patch_graph(1e6 + 255 * image, 255 * 0.2, k=3)
    assert torch.equal(edge_index, other_index)
    torch.testing.assert_close(attr, other_attr)


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (3, 2, 2), (2, 5)])
def test_small_pictures(shape):
    edge_index, attr = patch_graph(torch.rand(shape), 0.1)
    height, width = shape[-2:]
    assert attr.shape == (edge_index.size(1), 12)
    assert attr.isfinite().all()
    num_nodes = height * width
    assert edge_index.size(1) == num_nodes * (num_nodes - 1)  # fewer than k: all are joined


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e30])
def test_features_stay_finite(scale):
    _, attr = patch_graph(scale * picture(), 0.1)
    assert attr.isfinite().all()


def test_strided_and_half_precision():
    image = picture()
    expected = patch_graph(image, 0.2)
    strided = image.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    for one, other in zip(patch_graph(strided, 0.2), expected, strict=True):
        assert torch.equal(one, other)
    half = image.half()
    attr = patch_graph(half, 0.2)[1]
    assert attr.dtype == torch.float32
    assert torch.equal(attr, patch_graph(half.float(), 0.2)[1])


def test_refuses_what_is_no_picture():
    with pytest.raises(ValueError, match=r"'image' to have shape \[H, W\] or \[C, H, W\]"):
        patch_graph(torch.rand(4), 0.1)
    with pytest.raises(ValueError, match=r"a pixel at least \(got \[0, 4, 4\]\)"):
        patch_graph(torch.rand(0, 4, 4), 0.1)


@pytest.mark.parametrize("colours", [3, 4])
def test_colours_last_are_refused_with_the_remedy(colours):
    picture = torch.rand(7, 9, colours)
    with pytest.raises(ValueError, match=r"'image' to have its channels first.*permute\(2, 0, 1\)"):
        patch_graph(picture, 0.1)
    assert patch_graph(picture.permute(2, 0, 1), 0.1)[0].max() == 7 * 9 - 1


def test_a_bright_picture_keeps_the_variance_of_its_noise():
    """Of 16 bits and a noise of one: the squares of its values have ten digits, float32 seven."""
    image = torch.randn(12, 12, generator=torch.Generator().manual_seed(0))
    image[:, 6:] += 60_000
    narrow, wide = (patch_graph(each, 1.0, 4, 4) for each in (image, image.double()))
    assert torch.equal(narrow[0], wide[0])
    torch.testing.assert_close(narrow[1].double(), wide[1], rtol=0, atol=0.1)
