  let column = workgroup.y;
  if (column >= row_count()) {
    return;
  }
  var sum = residual(column, block + ${first_block}u, lane);
  for (var slot = 0u; slot < ${used}u; slot++) {
    let pair = column * ${used}u + slot;
    let choice = choices[pair];
    if (choice.x - ${first_expert}u >= ${part // span}u) {
      continue;
    }
    let share = vec4<f32>(bitcast<f32>(choice.y));
    let base = (choice.x - ${first_expert}u) * ${span}u;
