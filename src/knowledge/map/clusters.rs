//! Which vectors belong together: k-means on unit vectors. Pure and deterministic.

/// Rounds at most; what moves after so many is at a border anyway.
const ROUNDS: usize = 20;

/// The group of each vector, from 0 and dense, the largest group first. At most `most` groups, and no more than fit
/// the number of vectors.
pub(super) fn group(vectors: &[Vec<f32>], most: usize) -> Vec<usize> {
    let wanted = ((vectors.len() as f64 / 2.0).sqrt() as usize).clamp(1, most.max(1));
    let mut centres = seeds(vectors, wanted);
    let mut of: Vec<usize> = vec![0; vectors.len()];
    for _ in 0..ROUNDS {
        let mut moved = false;
        for (group, vector) in of.iter_mut().zip(vectors) {
            let nearest = nearest(vector, &centres);
            moved |= *group != nearest;
            *group = nearest;
        }
        centres = middles(vectors, &of, &centres);
        if !moved {
            break;
        }
    }
    by_size(&of, centres.len())
}

/// Far apart: each next one is the vector that is least like all before.
fn seeds(vectors: &[Vec<f32>], wanted: usize) -> Vec<Vec<f32>> {
    let Some(first) = vectors.first() else { return Vec::new() };
    let mut centres = vec![first.clone()];
    let mut likeness: Vec<f32> = vectors.iter().map(|vector| dot(vector, first)).collect();
    while centres.len() < wanted {
        let farthest = likeness.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let Some((next, _)) = farthest.filter(|(_, likeness)| **likeness < 0.999) else { break };
        let centre = vectors[next].clone();
        likeness.iter_mut().zip(vectors).for_each(|(most, vector)| *most = most.max(dot(vector, &centre)));
        centres.push(centre);
    }
    centres
}

fn nearest(vector: &[f32], centres: &[Vec<f32>]) -> usize {
    let mut best = (0, f32::NEG_INFINITY);
    for (n, centre) in centres.iter().enumerate() {
        let likeness = dot(vector, centre);
        if likeness > best.1 {
            best = (n, likeness);
        }
    }
    best.0
}

/// A group that has lost all its vectors keeps its centre.
fn middles(vectors: &[Vec<f32>], of: &[usize], before: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let mut sums: Vec<Vec<f32>> = before.iter().map(|centre| vec![0.0; centre.len()]).collect();
    for (vector, group) in vectors.iter().zip(of) {
        sums[*group].iter_mut().zip(vector).for_each(|(sum, x)| *sum += x);
    }
    for (sum, before) in sums.iter_mut().zip(before) {
        let length = dot(sum, sum).sqrt();
        if length > 0.0 {
            sum.iter_mut().for_each(|x| *x /= length);
        } else {
            sum.clone_from(before);
        }
    }
    sums
}

/// New numbers: the largest group is 0, empty ones have none.
fn by_size(of: &[usize], groups: usize) -> Vec<usize> {
    let mut sizes = vec![0usize; groups];
    of.iter().for_each(|group| sizes[*group] += 1);
    let mut order: Vec<usize> = (0..groups).collect();
    order.sort_by_key(|group| std::cmp::Reverse(sizes[*group]));
    let mut number = vec![0; groups];
    order.iter().enumerate().for_each(|(new, old)| number[*old] = new);
    of.iter().map(|group| number[*group]).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit vectors near an axis.
    fn near(axis: usize, n: u16) -> Vec<f32> {
        let mut vector = vec![0.0; 8];
        vector[axis] = 1.0;
        vector[(axis + 3) % 8] = f32::from(n % 5) / 20.0;
        let length = dot(&vector, &vector).sqrt();
        vector.iter().map(|x| x / length).collect()
    }

    #[test]
    fn what_is_alike_is_together() {
        let mut vectors = Vec::new();
        for (axis, count) in [(0, 20u16), (1, 50), (2, 30)] {
            vectors.extend((0..count).map(|n| near(axis, n)));
        }
        let of = group(&vectors, 3);
        assert!(of[..20].iter().all(|g| *g == 2), "{of:?}");
        assert!(of[20..70].iter().all(|g| *g == 0), "the largest is the first: {of:?}");
        assert!(of[70..].iter().all(|g| *g == 1), "{of:?}");
        assert_eq!(group(&vectors, 3), of, "always the same");
    }

    #[test]
    fn few_or_equal_vectors_are_one_group() {
        for vectors in [vec![], vec![near(0, 0)], vec![near(0, 0); 50]] {
            assert!(group(&vectors, 12).iter().all(|g| *g == 0));
        }
        let many: Vec<Vec<f32>> = (0..400u16).map(|n| near(usize::from(n) % 8, n)).collect();
        assert_eq!(group(&many, 4).iter().max(), Some(&3));
        // With room for all of them no group holds two kinds.
        let of = group(&many, 12);
        let kinds: std::collections::HashSet<(usize, usize)> =
            of.iter().enumerate().map(|(n, g)| (*g, n % 8)).collect();
        assert_eq!(kinds.len(), of.iter().max().unwrap() + 1, "{of:?}");
    }
}
