{# The word of the plane that is this thread's: number i % words of a row of the chunk. #}
  let i = (workgroup.y * 65535u + workgroup.x) * 64u + thread;
  let words = (shape[4] + 3u) / 4u;
  let row = i / words;
  if (row >= shape[0]) {
    return;
  }
