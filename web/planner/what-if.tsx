import { useState } from 'preact/hooks';
import type { ConsoleLawAnswer, ConsolePlannerConfig, ConsoleWhatIf } from '../../shared/console/planner/wire.ts';
import { short, whole } from '../format.ts';
import { Scroll } from '../scroll.tsx';
import { ask } from '../server.ts';

const LABELS: Readonly<Record<string, string>> = {
  min_endpoint: 'Fewest workers',
  prefill_min_endpoint: 'Fewest prefill workers',
  decode_min_endpoint: 'Fewest decode workers',
  min_gpu_budget: 'Fewest GPUs',
  max_gpu_budget: 'Most GPUs',
  ttft_ms: 'Target of TTFT, ms',
  itl_ms: 'Target of ITL, ms',
  rate_target_load: 'Load of a worker, of 1',
  rate_requests_per_second: 'Requests/s of a worker',
  rate_down_window_seconds: 'Down window, s',
  rate_step_max: 'Largest step',
  start_seconds: 'Time of a start, s',
  idle_to_zero_seconds: 'Idle until zero, s',
};

interface WhatIfProps {
  readonly group: string;
  readonly config: ConsolePlannerConfig;
}

/** Asks the law what it would decide now with other bounds. */
export function WhatIf({ group, config }: WhatIfProps) {
  const [answer, setAnswer] = useState<ConsoleWhatIf>();
  const [failure, setFailure] = useState<string>();
  const [isAsking, setAsking] = useState(false);
  const send = async (form: HTMLFormElement): Promise<void> => {
    setAsking(true);
    setFailure(undefined);
    try {
      const response = await ask('console/api/what-if', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ group, ...boundsOf(new FormData(form)) }),
      });
      setAnswer((await response.json()) as ConsoleWhatIf);
    } catch (thrown) {
      setAnswer(undefined);
      setFailure(thrown instanceof Error ? thrown.message : String(thrown));
    }
    setAsking(false);
  };
  return (
    <>
      <p class="muted small">
        The law answers for the fleet as it is now, with the bounds that you give; empty fields stay as they are. A
        question changes nothing.
      </p>
      <form
        class="bar-line filters"
        aria-label="What if"
        onSubmit={(event) => {
          event.preventDefault();
          void send(event.currentTarget);
        }}
      >
        {fieldsOf(config).map((name) => (
          <label key={name}>
            {LABELS[name] ?? name}
            <input name={name} type="number" step="any" class="narrow" placeholder={shownBound(config.bounds[name])} />
          </label>
        ))}
        <button type="submit" class="primary" disabled={isAsking}>
          Ask
        </button>
      </form>
      {failure !== undefined && <p role="alert">{failure}</p>}
      <div role="status">{answer !== undefined && <Answers answer={answer} />}</div>
    </>
  );
}

function fieldsOf({ bounds, law }: ConsolePlannerConfig): readonly string[] {
  const names = Object.keys(bounds);
  const isMissing = law === 'rate' && !names.includes('rate_requests_per_second');
  return isMissing ? [...names, 'rate_requests_per_second'] : names;
}

function shownBound(value: number | undefined): string {
  return value === undefined ? 'measured' : value === -1 ? 'none' : String(value);
}

/** Returns the fields that have a value. */
function boundsOf(form: FormData): Record<string, number> {
  const given = [...form].filter(([, value]) => String(value).trim() !== '');
  return Object.fromEntries(given.map(([name, value]) => [name, Number(value)]));
}

function Answers({ answer: { present, other, notes } }: { readonly answer: ConsoleWhatIf }) {
  const pools = Object.keys(present.targets);
  const rows = [
    ['as it is', present],
    ['with your bounds', other],
  ] as const;
  return (
    <>
      <Scroll label="Answers of the law">
        <table>
          <thead>
            <tr>
              <th scope="col">Bounds</th>
              <th scope="col">Pool</th>
              <th scope="col" class="n">
                Now
              </th>
              <th scope="col" class="n">
                Next tick
              </th>
              <th scope="col" class="n">
                If the demand stays
              </th>
              <th scope="col" class="n">
                Needed
              </th>
              <th scope="col" class="n">
                Requests/s
              </th>
              <th scope="col" class="n">
                A worker serves
              </th>
              <th scope="col">Why</th>
            </tr>
          </thead>
          <tbody>
            {rows.flatMap(([name, law]) =>
              pools.map((pool) => <AnswerRow key={`${name}/${pool}`} name={name} pool={pool} law={law} />),
            )}
          </tbody>
        </table>
      </Scroll>
      {notes.map((note) => (
        <p key={note} class="muted small">
          {note}
        </p>
      ))}
      <p class="muted small">Nothing was changed.</p>
    </>
  );
}

interface AnswerRowProps {
  readonly name: string;
  readonly pool: string;
  readonly law: ConsoleLawAnswer;
}

function AnswerRow({ name, pool, law: { now, targets, settled, pools, reason } }: AnswerRowProps) {
  const figures = pools[pool];
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{pool}</td>
      <td class="n">{whole(now[pool])}</td>
      <td class="n">{whole(targets[pool])}</td>
      <td class="n">{whole(settled?.[pool])}</td>
      <td class="n">{whole(figures?.need)}</td>
      <td class="n">{short(figures?.demand)}</td>
      <td class="n">{short(figures?.capacity)}</td>
      <td class="why">{reason}</td>
    </tr>
  );
}
