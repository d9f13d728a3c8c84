import { useState } from 'preact/hooks';
import type { ConsoleWorker } from '../../shared/console/wire.ts';
import { text, whole } from '../format.ts';
import { linkTo } from '../route.ts';
import { Scroll } from '../scroll.tsx';
import { DrainButton } from './drain-button.tsx';
import { memo } from './memo.ts';
import { State } from './model-table.tsx';
import type { Fleet } from './use-fleet.ts';

/** Rows that are shown at once; a filter finds the others. */
const ROWS_MAX = 500;

/** Workers with their load, busiest pools first by name. */
export function WorkerTable({ fleet, model }: { readonly fleet: Fleet; readonly model: string | undefined }) {
  const [wanted, setWanted] = useState('');
  const words = wanted.toLowerCase().split(/\s+/);
  const matching = [...fleet.workers.values()]
    .filter((worker) => model === undefined || worker.model === model)
    .filter((worker) => words.every((word) => namesOf(worker).includes(word)))
    .sort(byPlace);
  const shown = matching.slice(0, ROWS_MAX);
  return (
    <>
      <p class="bar-line">
        <label>
          <span class="unseen">Filter workers</span>
          <input
            type="search"
            placeholder="Filter: id, model, pool, state, zone"
            value={wanted}
            onInput={(event) => setWanted(event.currentTarget.value)}
          />
        </label>
        <span class="muted" role="status">
          {shown.length === matching.length
            ? `${matching.length} workers`
            : `${shown.length} of ${matching.length} workers`}
          {fleet.workers_left_out > 0 && `, and ${fleet.workers_left_out} that this page leaves out`}
        </span>
      </p>
      <Scroll label="Table of workers">
        <table>
          <thead>
            <tr>
              <th scope="col">Worker</th>
              <th scope="col">Model</th>
              <th scope="col">Pool</th>
              <th scope="col">State</th>
              <th scope="col" class="n">
                Requests
              </th>
              <th scope="col">KV blocks</th>
              <th scope="col" class="n">
                To prefill
              </th>
              <th scope="col" class="n">
                Ranks
              </th>
              <th scope="col">Machine</th>
              <th scope="col">
                <span class="unseen">Orders</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((worker) => (
              <WorkerRow key={worker.id} worker={worker} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}

function namesOf({ id, model, pool, state, machine, endpoint }: ConsoleWorker): string {
  return [id, model, pool, state, endpoint, ...Object.values(machine ?? {})].join(' ').toLowerCase();
}

function byPlace(a: ConsoleWorker, b: ConsoleWorker): number {
  const [one, other] = [`${a.model} ${a.pool} ${a.id}`, `${b.model} ${b.pool} ${b.id}`];
  return one < other ? -1 : 1;
}

/** A worker's row is drawn again only if the worker has changed. */
const WorkerRow = memo(({ worker }: { readonly worker: ConsoleWorker }) => {
  const { id, machine, kv_blocks: used, kv_blocks_total: total } = worker;
  const place = [machine?.instance_type, machine?.zone, machine?.market].filter(Boolean).join(', ');
  return (
    <tr>
      <th scope="row" class="mono">
        <a href={linkTo(['requests'], { worker: id })} title={worker.endpoint}>
          {id}
        </a>
      </th>
      <td>{worker.model}</td>
      <td>{worker.pool}</td>
      <td>
        <State name={worker.state} />
      </td>
      <td class="n">{whole(worker.requests)}</td>
      <td>
        <Share used={used} total={total} />
      </td>
      <td class="n">{whole(worker.prefill_tokens)}</td>
      <td class="n">{worker.ranks}</td>
      <td class="muted">{text(place || worker.device)}</td>
      <td class="n">{worker.state === 'draining' ? '' : <DrainButton id={id} />}</td>
    </tr>
  );
});

function Share({ used, total }: { readonly used: number | null; readonly total: number | null }) {
  if (used === null) return <span class="muted">–</span>;
  if (total === null || total === 0) return <span>{whole(used)}</span>;
  const share = Math.min(1, used / total);
  return (
    <span class="share">
      <span class={share > 0.9 ? 'track full' : 'track'} aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </span>
      <span class="n">{Math.round(share * 100)} %</span>
      <span class="muted small">
        {whole(used)} of {whole(total)}
      </span>
    </span>
  );
}
