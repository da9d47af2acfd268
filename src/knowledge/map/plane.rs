//! Vectors in two dimensions: the two directions in which they differ most (principal components), found by power
//! iteration, so that no matrix of dimension × dimension is made. Pure and deterministic.

/// Rounds for each direction: what the eye can see has settled long before.
const ROUNDS: usize = 40;
/// Directions are taken as settled when a round turns them by less than this (1 - cosine).
const SETTLED: f64 = 1e-7;

/// Where each vector lies, in their order; the farthest is at distance 1 of the middle on one axis. Vectors of
/// different lengths are cut to the shortest.
pub(super) fn project(vectors: &[Vec<f32>]) -> Vec<[f32; 2]> {
    let dimension = vectors.iter().map(Vec::len).min().unwrap_or(0);
    let mean = mean(vectors, dimension);
    let mut directions: Vec<Vec<f64>> = Vec::new();
    for n in 0..2 {
        let found = direction(vectors, &mean, &directions, n);
        directions.push(found);
    }
    let place = |vector: &Vec<f32>| [0, 1].map(|axis: usize| along(vector, &mean, &directions[axis]));
    let places: Vec<[f64; 2]> = vectors.iter().map(place).collect();
    let farthest = places.iter().flatten().fold(0f64, |most, x| most.max(x.abs()));
    let scale = if farthest > 0.0 { 1.0 / farthest } else { 0.0 };
    places.into_iter().map(|place| place.map(|x| (x * scale) as f32)).collect()
}

fn mean(vectors: &[Vec<f32>], dimension: usize) -> Vec<f64> {
    let mut sum = vec![0f64; dimension];
    for vector in vectors {
        sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    let count = vectors.len().max(1) as f64;
    sum.iter_mut().for_each(|x| *x /= count);
    sum
}

/// The direction of the greatest spread across `others`; zeros where there is none.
fn direction(vectors: &[Vec<f32>], mean: &[f64], others: &[Vec<f64>], seed: usize) -> Vec<f64> {
    // Any start that is not by chance across the answer does; this one is always the same.
    let mut found: Vec<f64> = (0..mean.len()).map(|n| 1.0 + ((n * 7 + seed * 3) % 11) as f64 / 11.0).collect();
    level(&mut found, others);
    for _ in 0..ROUNDS {
        let mut next = vec![0f64; mean.len()];
        for vector in vectors {
            let weight = along(vector, mean, &found);
            next.iter_mut().zip(vector).zip(mean).for_each(|((sum, x), m)| *sum += weight * (f64::from(*x) - m));
        }
        if !level(&mut next, others) {
            return vec![0.0; mean.len()];
        }
        let turned = 1.0 - next.iter().zip(&found).map(|(a, b)| a * b).sum::<f64>().abs();
        found = next;
        if turned < SETTLED {
            break;
        }
    }
    // A direction and its opposite are the same answer: the one with the largest part positive is taken.
    let largest = found.iter().copied().fold(0f64, |most, x| if x.abs() > most.abs() { x } else { most });
    if largest < 0.0 {
        found.iter_mut().for_each(|x| *x = -*x);
    }
    found
}

/// Across `others` and of length one; `false` where nothing is left.
fn level(direction: &mut [f64], others: &[Vec<f64>]) -> bool {
    for other in others {
        let shared: f64 = direction.iter().zip(other).map(|(a, b)| a * b).sum();
        direction.iter_mut().zip(other).for_each(|(x, o)| *x -= shared * o);
    }
    let length = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
    if length < 1e-12 {
        return false;
    }
    direction.iter_mut().for_each(|x| *x /= length);
    true
}

fn along(vector: &[f32], mean: &[f64], direction: &[f64]) -> f64 {
    vector.iter().zip(mean).zip(direction).map(|((x, m), d)| (f64::from(*x) - m) * d).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_spread_is_the_first_axis() {
        // Points on a long thin cross that is turned in space: far along (1, 1, 0), less along (0, 0, 1).
        let mut vectors = Vec::new();
        for n in -10i8..=10 {
            let t = f32::from(n);
            vectors.push(vec![t, t, 0.0]);
            vectors.push(vec![0.0, 0.0, t / 4.0]);
        }
        let places = project(&vectors);
        for (pair, n) in places.chunks(2).zip(-10i8..=10) {
            let t = f32::from(n) / 10.0;
            assert!((pair[0][0].abs() - t.abs()).abs() < 1e-3 && pair[0][1].abs() < 1e-3, "{pair:?} {t}");
            let side = t.abs() * 0.25 / 2f32.sqrt();
            assert!(pair[1][0].abs() < 1e-3 && (pair[1][1].abs() - side).abs() < 1e-3, "{pair:?} {t}");
        }
        assert_eq!(project(&vectors), places, "always the same");
    }

    #[test]
    fn what_has_no_spread_lies_in_the_middle() {
        for vectors in [vec![], vec![vec![1.0, 2.0]], vec![vec![0.5; 4]; 3], vec![vec![], vec![1.0]]] {
            assert!(project(&vectors).iter().flatten().all(|x| *x == 0.0), "{vectors:?}");
        }
        // One direction only: the other axis is empty.
        let line: Vec<Vec<f32>> = (0..5u8).map(|n| vec![f32::from(n), 0.0]).collect();
        assert!(project(&line).iter().all(|place| place[1].abs() < 1e-6));
    }
}
