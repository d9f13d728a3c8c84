/** What `--router-cost-model` takes. */
export type CostModelChoice = 'auto' | 'stator' | 'dynamo';

/**
 * The formula behind a choice. `auto` is `stator`: our replay tables (docs/simulate.md) show it within 2 % of the
 * best Dynamo setting or better on every row of docs/simulate.md, and no worse than `dynamo` with late events and
 * with two routers. Whoever set what only Dynamo's formula has gets that one.
 * @param isDynamoAsked whether the operator set a weight of Dynamo's formula or its load model, which must keep their meaning,
 *   or turned off the tracking of prompt tokens, without which there is no other
 */
export function costModelOf(choice: CostModelChoice, isDynamoAsked: boolean): 'stator' | 'dynamo' {
  if (choice !== 'auto') return choice;
  return isDynamoAsked ? 'dynamo' : 'stator';
}
