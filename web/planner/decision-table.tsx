import type { ConsoleDecision } from '../../shared/console/planner/wire.ts';
import { localDayOf, timeOfDay, whole } from '../format.ts';
import { linkTo } from '../route.ts';
import { Scroll } from '../scroll.tsx';

interface DecisionTableProps {
  readonly decisions: readonly ConsoleDecision[];
  readonly model: string | undefined;
  /** Number of the decision that is open. */
  readonly opened: number | undefined;
}

/** Decisions of a planner, the newest first. */
export function DecisionTable({ decisions, model, opened }: DecisionTableProps) {
  if (decisions.length === 0) return <p class="muted">No decision was made in the last week.</p>;
  return (
    <Scroll label="Table of decisions">
      <table>
        <thead>
          <tr>
            <th scope="col">Decision</th>
            <th scope="col">Time</th>
            <th scope="col">Workers</th>
            <th scope="col">Outcome</th>
            <th scope="col">Why</th>
          </tr>
        </thead>
        <tbody>
          {decisions.map((decision) => (
            <tr key={decision.id} class={decision.id === opened ? 'chosen' : undefined}>
              <th scope="row">
                <a href={linkTo(['planner'], { model, decision: String(decision.id) })}>#{decision.id}</a>
              </th>
              <td>
                <Moment ms={decision.at_ms} />
              </td>
              <td>{changeOf(decision)}</td>
              <td>
                <Outcome decision={decision} />
              </td>
              <td class="why">{decision.reason}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** A time, with its day if that is not today. */
export function Moment({ ms }: { readonly ms: number }) {
  const day = localDayOf(ms);
  const isToday = day === localDayOf(Date.now());
  return (
    <time dateTime={new Date(ms).toISOString()}>
      {isToday ? '' : `${day} `}
      {timeOfDay(ms)}
    </time>
  );
}

const STATES = {
  waiting: 'running',
  under_way: 'running',
  reached: 'ready',
  overtaken: '',
  late: 'stalled',
  stalled: 'stalled',
  refused: 'stalled',
  advice: '',
} as const;

/** Outcome of a decision. */
export function Outcome({ decision: { outcome } }: { readonly decision: ConsoleDecision }) {
  return <span class={`state ${STATES[outcome]}`}>{outcome.replace('_', ' ')}</span>;
}

/** Returns the workers before and after a decision. */
export function changeOf({ previous, targets }: ConsoleDecision): string {
  const pools = Object.entries(targets);
  return pools
    .map(([pool, target]) => {
      const name = pools.length > 1 ? `${pool} ` : '';
      return `${name}${whole(previous[pool])} → ${whole(target)}`;
    })
    .join(', ');
}
