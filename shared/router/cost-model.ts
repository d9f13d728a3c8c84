/** What `--router-cost-model` takes. */
export type CostModelChoice = 'auto' | 'stator' | 'dynamo';

/**
 * Whether our replay tables show `stator` within 2 % of the best Dynamo setting or better on every row of router.md, section
 * 12.4, and no worse than `dynamo` with event lag and with two routers (ruling 34).
 */
const IS_STATOR_PROVEN: boolean = false;

/**
 * The formula behind a choice (ruling 34).
 * @param isWeightSet whether the operator set a weight of Dynamo's formula, which must keep its meaning
 */
export function costModelOf(
  choice: CostModelChoice,
  isWeightSet: boolean,
  isStatorProven = IS_STATOR_PROVEN,
): 'stator' | 'dynamo' {
  if (choice !== 'auto') return choice;
  return isWeightSet || !isStatorProven ? 'dynamo' : 'stator';
}
