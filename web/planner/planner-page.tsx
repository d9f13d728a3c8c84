import { duration, short, timeOfDay } from '../format.ts';
import type { PageProps } from '../main.tsx';
import { linkTo } from '../route.ts';
import { DecisionTable } from './decision-table.tsx';
import { OpenedDecision } from './opened-decision.tsx';
import { PhaseTable } from './phase-table.tsx';
import { PlannerCharts } from './planner-charts.tsx';
import { type Planner, usePlanner } from './use-planner.ts';
import { WhatIf } from './what-if.tsx';

/** Age of the latest tick from which the page doubts that a planner runs: one at rest records a tick a minute. */
const OLD_MS = 180_000;

/** Page of a planner: what it saw, what it decided and why, and what became of it. */
export function PlannerPage({ place, onLink }: PageProps) {
  const model = place.query.get('model') ?? undefined;
  const opened = place.query.get('decision');
  const planner = usePlanner(model, onLink);
  if (planner === undefined) return <p class="muted">Waiting for the planner …</p>;
  return (
    <>
      <h1 class="unseen">Planner</h1>
      {planner.problem !== null && <p role="alert">The records cannot be read now: {planner.problem}</p>}
      <Models planner={planner} />
      {planner.why_none === null ? (
        <Story planner={planner} model={model} opened={opened === null ? undefined : Number(opened)} />
      ) : (
        <p>{planner.why_none}</p>
      )}
    </>
  );
}

interface StoryProps {
  readonly planner: Planner;
  readonly model: string | undefined;
  /** Number of the decision that is open. */
  readonly opened: number | undefined;
}

function Story({ planner, model, opened }: StoryProps) {
  const { points, decisions, config } = planner;
  return (
    <>
      <Latest planner={planner} />
      <section aria-labelledby="hour">
        <h2 id="hour">Last hour</h2>
        {points.length === 0 ? <p class="muted">Nothing was recorded.</p> : <PlannerCharts planner={planner} />}
      </section>
      <section aria-labelledby="phases">
        <h2 id="phases">Workers by option and phase</h2>
        <PhaseTable point={points.at(-1)} />
      </section>
      <section aria-labelledby="decisions">
        <h2 id="decisions">Decisions</h2>
        {opened !== undefined && <OpenedDecision planner={planner} id={opened} model={model} />}
        <DecisionTable decisions={decisions} model={model} opened={opened} />
      </section>
      {config !== null && (
        <section aria-labelledby="what-if">
          <h2 id="what-if">What if</h2>
          <WhatIf key={planner.group} group={planner.group ?? ''} config={config} />
        </section>
      )}
    </>
  );
}

function Models({ planner: { groups, group, groups_left_out: leftOut } }: { readonly planner: Planner }) {
  if (groups.length < 2) return null;
  return (
    <p class="bar-line">
      <label>
        Model
        <select
          value={group ?? ''}
          onChange={(event) => {
            location.hash = linkTo(['planner'], { model: event.currentTarget.value });
          }}
        >
          {groups.map(({ id, namespace, model }) => (
            <option key={id} value={id}>
              {model} ({namespace})
            </option>
          ))}
        </select>
      </label>
      {leftOut > 0 && <span class="muted">and {leftOut} more</span>}
    </p>
  );
}

function Latest({ planner: { tick, config, at_ms: nowMs, groups, group } }: { readonly planner: Planner }) {
  const named = groups.find(({ id }) => id === group);
  const ageMs = tick === null ? undefined : nowMs - tick.at_ms;
  return (
    <section class="card latest" aria-labelledby="latest">
      <h2 id="latest">
        {named?.model} <span class="muted small">in {named?.namespace}</span>
      </h2>
      <p>{tick === null ? 'No tick was recorded in the last hour.' : sentence(tick.reason)}</p>
      <p class="muted small">
        {tick !== null && `Tick of ${timeOfDay(tick.at_ms)}. `}
        {config !== null &&
          `Law ${config.law}, a tick every ${short(config.tick_seconds)} s, targets ${duration(config.ttft_ms)} to the first token and ${duration(config.itl_ms)} between tokens. `}
        {config?.is_advisory === true && 'Advice only: no decision is carried out.'}
      </p>
      {ageMs !== undefined && ageMs > OLD_MS && (
        <p role="alert">The last record is {duration(ageMs)} old: the planner may not run.</p>
      )}
    </section>
  );
}

/** Returns a reason as a sentence. */
function sentence(reason: string): string {
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`;
}
