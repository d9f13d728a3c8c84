import { useEffect, useState } from 'preact/hooks';
import type { ConsoleRequestDetail } from '../../shared/console/wire/requests.ts';
import { duration, smallDollars, text, timeOfDay, whole } from '../format.ts';
import { linkTo } from '../route.ts';
import { ask, type LinkState, Refused } from '../server.ts';
import { Decision } from './decision.tsx';
import { Outcome } from './request-table.tsx';
import { Texts } from './texts.tsx';
import { Waterfall } from './waterfall.tsx';

/** How often a running request is asked for, and after a failure, in milliseconds. */
const AGAIN_MS = 1000;

interface RequestPageProps {
  readonly id: string;
  readonly onLink: (state: LinkState) => void;
}

/** Page of one request: its stages, its workers, and the routing decision. */
export function RequestPage({ id, onLink }: RequestPageProps) {
  const { detail, failure } = useDetail(id, onLink);
  return (
    <>
      <p class="bar-line">
        <a href={linkTo(['requests'])}>All requests</a>
      </p>
      <h1>Request {detail?.request.id ?? id}</h1>
      {failure !== undefined && <p role="alert">{failure}</p>}
      {detail !== undefined && (
        <>
          <Facts detail={detail} />
          <section aria-labelledby="stages">
            <h2 id="stages">Stages</h2>
            <Waterfall detail={detail} />
          </section>
          <section aria-labelledby="decision">
            <h2 id="decision">Routing decision</h2>
            <Decision detail={detail} />
          </section>
          <section aria-labelledby="texts">
            <h2 id="texts">Prompt and answer</h2>
            <Texts detail={detail} />
          </section>
        </>
      )}
    </>
  );
}

/** Whether asking again would have the same end. */
function isFinal(thrown: unknown): boolean {
  return thrown instanceof Refused && [401, 403, 404].includes(thrown.status);
}

/** Asks for a request, again and again while it runs. */
function useDetail(id: string, onLink: (state: LinkState) => void) {
  const [detail, setDetail] = useState<ConsoleRequestDetail>();
  const [failure, setFailure] = useState<string>();
  useEffect(() => {
    setDetail(undefined); // of another request
    setFailure(undefined);
    const ending = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async (): Promise<void> => {
      try {
        const response = await ask(`console/api/requests/${encodeURIComponent(id)}`, { signal: ending.signal });
        const told = (await response.json()) as ConsoleRequestDetail;
        onLink({ kind: 'live' });
        setDetail(told);
        setFailure(undefined);
        if (told.request.status === null) timer = setTimeout(look, AGAIN_MS);
      } catch (thrown) {
        if (ending.signal.aborted) return;
        if (thrown instanceof Refused && thrown.status !== 404) onLink({ kind: 'refused', error: thrown });
        else setFailure(thrown instanceof Error ? thrown.message : String(thrown));
        if (!isFinal(thrown)) timer = setTimeout(look, AGAIN_MS);
      }
    };
    void look();
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [id]);
  return { detail, failure };
}

function Facts({ detail: { request } }: { readonly detail: ConsoleRequestDetail }) {
  const facts = [
    ['Received', timeOfDay(request.received_ms)],
    ['Model', text(request.model)],
    ['Endpoint', request.endpoint],
    ['Key', text(request.key)],
    ['Worker', text(request.worker)],
    ['Prompt tokens', whole(request.prompt_tokens)],
    ['Cached', whole(request.cached_tokens)],
    ['Output tokens', whole(request.output_tokens)],
    ['TTFT', duration(request.ttft_ms)],
    ['Total', duration(request.total_ms)],
    ...(request.cost_usd === null ? [] : [['Cost', smallDollars(request.cost_usd)] as const]),
    ['x-request-id', request.x_request_id],
  ] as const;
  return (
    <dl class="facts card">
      <div>
        <dt>Status</dt>
        <dd>
          <Outcome request={request} />
        </dd>
      </div>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class={name === 'Worker' || name === 'x-request-id' ? 'mono' : undefined}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
