{# What subgroups are like: for each thread of a workgroup of 64 its subgroup's size and its lane, and whether a value
   shuffled from its neighbour three lanes away is the right one. #}
@group(0) @binding(0) var<storage, read_write> found: array<u32>;

@compute @workgroup_size(64)
fn main(
  @builtin(local_invocation_index) thread: u32,
  @builtin(subgroup_size) size: u32,
  @builtin(subgroup_invocation_id) lane: u32,
) {
  let neighbour = subgroupShuffleXor(thread, 3u);
  found[3u * thread] = size;
  found[3u * thread + 1u] = lane;
  found[3u * thread + 2u] = neighbour;
}
