import type { ConsoleRequestDetail } from '../../shared/console/wire/requests.ts';
import { duration, text, whole } from '../format.ts';
import { Scroll } from '../scroll.tsx';

const ABOUT = {
  read: 'reading and checking the request',
  route: 'template, tokens, choice of the worker, waiting for it',
  prefill: 'until the first token',
  decode: 'from the first token',
} as const;

/** The stages of a request as bars over its time, and its moves between workers. */
export function Waterfall({ detail: { stages, moves, request } }: { readonly detail: ConsoleRequestDetail }) {
  const ends = stages.map(({ from_ms, to_ms }) => to_ms ?? from_ms);
  const totalMs = Math.max(request.total_ms ?? 0, ...ends, 0.1);
  return (
    <Scroll label="Table of stages">
      <table class="waterfall">
        <thead>
          <tr>
            <th scope="col">Stage</th>
            <th scope="col">Worker</th>
            <th scope="col" class="n">
              From
            </th>
            <th scope="col" class="n">
              Took
            </th>
            <th scope="col" class="span">
              Time
            </th>
          </tr>
        </thead>
        <tbody>
          {stages.map(({ name, worker, from_ms: from, to_ms: to }, at) => (
            <tr key={`${name}${at}`}>
              <th scope="row" title={ABOUT[name]}>
                {name}
              </th>
              <td class="mono">{text(worker)}</td>
              <td class="n">{duration(from)}</td>
              <td class="n">{to === null ? 'running' : duration(to - from)}</td>
              <td class="span" aria-hidden="true">
                <span
                  class={`stage ${name}`}
                  style={{
                    marginLeft: `${(from / totalMs) * 100}%`,
                    width: `max(2px, ${(((to ?? totalMs) - from) / totalMs) * 100}%)`,
                  }}
                />
              </td>
            </tr>
          ))}
          {moves.map(({ at_ms: at, from, reason, output_tokens: tokens }, index) => (
            <tr key={`move${index}`}>
              <th scope="row">move</th>
              <td class="mono">{text(from)}</td>
              <td class="n">{duration(at)}</td>
              <td colSpan={2}>
                {reason}, after {whole(tokens)} output tokens
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
