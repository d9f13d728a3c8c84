import { useEffect, useRef } from 'preact/hooks';
import type { ConsoleRequest } from '../../shared/console/wire/requests.ts';
import { memo } from '../fleet/memo.ts';
import { duration, smallDollars, text, timeOfDay, whole } from '../format.ts';
import { linkTo } from '../route.ts';
import { Scroll } from '../scroll.tsx';
import { ROW, useDrawn } from './use-drawn.ts';
import type { Requests } from './use-requests.ts';

/** Rows from the end at which older ones are loaded. */
const NEAR_END = 30;

/** Table of requests that draws only the rows in sight. */
export function RequestTable({ requests, onEnd }: { readonly requests: Requests; readonly onEnd: () => void }) {
  const { rows, next, kept, leftOut, hasCosts } = requests;
  const box = useRef<HTMLElement>(null);
  const {
    now: { from, to },
    wanted,
    look,
  } = useDrawn(box, rows);
  useEffect(() => {
    if (next !== null && wanted.to >= rows.length - NEAR_END) onEnd();
  }, [wanted.to, rows.length, next]);
  return (
    <>
      <Scroll label="Table of requests" isTall box={box} onScroll={look}>
        <table class="requests" aria-rowcount={rows.length + 1}>
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col">Time</th>
              <th scope="col">Status</th>
              <th scope="col">Model</th>
              <th scope="col" class="wide">
                Endpoint
              </th>
              <th scope="col" class="wide">
                Key
              </th>
              <th scope="col">Worker</th>
              <th scope="col" class="n wide">
                Prompt
              </th>
              <th scope="col" class="n wide">
                Cached
              </th>
              <th scope="col" class="n">
                Output
              </th>
              <th scope="col" class="n">
                TTFT
              </th>
              <th scope="col" class="n">
                Total
              </th>
              {hasCosts && (
                <th scope="col" class="n cost-head">
                  Cost
                </th>
              )}
              <th scope="col" class="n wide">
                Moves
              </th>
            </tr>
          </thead>
          <tbody>
            {from > 0 && <Gap rows={from} />}
            {rows.slice(from, to).map((request, at) => (
              <Row key={request.number} request={request} index={from + at + 2} hasCost={hasCosts} />
            ))}
            {to < rows.length && <Gap rows={rows.length - to} />}
          </tbody>
        </table>
        {rows.length === 0 && <p class="muted pad">No request matches.</p>}
      </Scroll>
      <p class="muted small">
        {rows.length} requests are loaded. The frontend remembers its last {whole(kept)}.
        {leftOut > 0 && ` ${whole(leftOut)} came too fast for this list.`}
      </p>
    </>
  );
}

/** Room of rows that are not drawn. */
function Gap({ rows }: { readonly rows: number }) {
  return (
    <tr class="gap">
      <td style={{ height: `${rows * ROW}px` }} />
    </tr>
  );
}

interface RowProps {
  readonly request: ConsoleRequest;
  readonly index: number;
  readonly hasCost: boolean;
}

const Row = memo(({ request, index, hasCost }: RowProps) => (
  <tr aria-rowindex={index}>
    <th scope="row">
      <a href={linkTo(['requests', String(request.number)])}>{timeOfDay(request.received_ms)}</a>
    </th>
    <td class="cut" title={request.error ?? ''}>
      <Outcome request={request} />
    </td>
    <td class="cut" title={request.model}>
      {text(request.model)}
    </td>
    <td class="wide cut" title={request.endpoint}>
      {request.endpoint}
    </td>
    <td class="wide cut" title={request.key ?? ''}>
      {text(request.key)}
    </td>
    <td class="mono cut">{text(request.worker)}</td>
    <td class="n wide">{whole(request.prompt_tokens)}</td>
    <td class="n wide">{whole(request.cached_tokens)}</td>
    <td class="n">{whole(request.output_tokens)}</td>
    <td class="n">{duration(request.ttft_ms)}</td>
    <td class="n">{duration(request.total_ms)}</td>
    {hasCost && <td class="n">{smallDollars(request.cost_usd)}</td>}
    <td class="n wide">{request.moves === 0 ? '' : request.moves}</td>
  </tr>
));

/** Status of a request with the kind of its failure. */
export function Outcome({ request: { status, error } }: { readonly request: ConsoleRequest }) {
  if (status === null) return <span class="state running">running</span>;
  if (error === null) return <span class="state ready">{status}</span>;
  return (
    <span class="state stalled">
      {status} {error}
    </span>
  );
}
