import type { ConsoleWorker } from '../../shared/console/wire/worker.ts';
import { text, whole } from '../format.ts';
import { linkTo } from '../route.ts';
import { Scroll } from '../scroll.tsx';
import { DrainButton } from './drain-button.tsx';
import { KvShare } from './kv-share.tsx';
import { type FleetMember, machineWords } from './members.ts';
import { memo } from './memo.ts';
import { State } from './model-table.tsx';

/** Workers as a table: with machines that start, and workers that have gone. */
export function WorkerTable({ members }: { readonly members: readonly FleetMember[] }) {
  return (
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
          {members.map((member) =>
            member.worker === undefined ? (
              <StartingRow key={member.key} member={member} />
            ) : (
              <WorkerRow key={member.key} worker={member.worker} state={member.state} />
            ),
          )}
        </tbody>
      </table>
    </Scroll>
  );
}

function StartingRow({ member: { id, model, state, about } }: { readonly member: FleetMember }) {
  return (
    <tr>
      <th scope="row" class="mono">
        {id}
      </th>
      <td>{model}</td>
      <td />
      <td>
        <State name={state} /> <span class="muted">{about}</span>
      </td>
      <td colSpan={6} />
    </tr>
  );
}

interface RowProps {
  readonly worker: ConsoleWorker;
  readonly state: string;
}

/** A worker's row is drawn again only if the worker has changed. */
const WorkerRow = memo(({ worker, state }: RowProps) => {
  const { id, kv_blocks: used, kv_blocks_total: total } = worker;
  return (
    <tr>
      <th scope="row" class="mono">
        <a href={linkTo(['workers', id])} title={worker.endpoint}>
          {id}
        </a>
      </th>
      <td>{worker.model}</td>
      <td>{worker.pool}</td>
      <td>
        <State name={state} />
      </td>
      <td class="n">{whole(worker.requests)}</td>
      <td>
        <KvShare used={used} total={total} />
      </td>
      <td class="n">{whole(worker.prefill_tokens)}</td>
      <td class="n">{worker.ranks}</td>
      <td class="muted">{text(machineWords(worker))}</td>
      <td class="n">{state === 'draining' || state === 'gone' ? '' : <DrainButton id={id} />}</td>
    </tr>
  );
});
