import type { Observed, ObservedOption } from './connector.ts';

/** Returns a fleet in words, for people. The same fleet has the same words. */
export function describeFleet({ pools = {}, handed, capacitySeconds }: Observed): string {
  const texts = Object.entries(pools).flatMap(([name, { ready, starting, draining, refreshing, options }]) => {
    if (ready + starting + draining === 0 && options.length === 0) return [];
    const counts = [`${ready} serve`, ...some(starting, 'start'), ...some(draining, 'drain')];
    const state = refreshing ? ['an instance refresh is in progress'] : [];
    return [`${name}: ${[...counts, ...state, ...options.map(describeOption)].join(', ')}`];
  });
  if (capacitySeconds !== undefined) texts.push(`machines exist ${Math.round(capacitySeconds)} s after their order`);
  if (handed !== undefined) texts.push(`the last targets are ${handed.isCarriedOut ? '' : 'not '}carried out`);
  return texts.join('; ');
}

function describeOption({ id, ready, desired, failing, isRebalancing, isAbsent }: ObservedOption): string {
  if (isAbsent === true) return `${id} does not exist`;
  const why =
    failing === undefined ? '' : ` (${failing.code}${failing.zone === undefined ? '' : ` in ${failing.zone}`})`;
  return `${id} ${ready} of ${desired}${isRebalancing === true ? ' (rebalancing)' : ''}${why}`;
}

function some(count: number, what: string): readonly string[] {
  return count === 0 ? [] : [`${count} ${what}`];
}
