{# A workgroup leaves where the plan has room for more groups than there are, or where its part lacks the expert. #}
  let group = piece(workgroup.y);
  if (group.y >= group.z || group.x - ${first_expert}u >= ${part // span}u) {
    return;
  }
  group_end = group.z;
  group_expert = group.x;
  let base = (group.x - ${first_expert}u) * ${span}u;
