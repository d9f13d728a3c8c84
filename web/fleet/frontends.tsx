import { short, whole } from '../format.ts';
import { Scroll } from '../scroll.tsx';
import type { Fleet } from './use-fleet.ts';

/** The frontend that the page shows, and what it knows of others. */
export function Frontends({ fleet }: { readonly fleet: Fleet }) {
  const { frontend, frontends, totals } = fleet;
  const { router_id: id, worker_requests: atWorkers, others, left_out: leftOut } = frontends;
  return (
    <>
      <p>
        This page shows the frontend on <b class="name">{frontend.host}</b>, process {frontend.pid}, version{' '}
        {frontend.version}, stage {frontend.stage}. Requests, times, cache hits, cold starts and the last hour are its
        own. State and load of workers are those of all frontends
        {atWorkers !== null && `: workers report ${whole(atWorkers)} requests, running and waiting`}.
      </p>
      {others === null ? (
        <p class="muted">
          It does not know other frontends: they tell each other of their requests with --router-replica-sync.
        </p>
      ) : (
        <Scroll label="Table of frontends">
          <table>
            <thead>
              <tr>
                <th scope="col">Router</th>
                <th scope="col" class="n">
                  Bookings
                </th>
                <th scope="col" class="n">
                  Requests/s
                </th>
                <th scope="col" class="n">
                  Tokens/s
                </th>
              </tr>
            </thead>
            <tbody>
              <tr class="chosen">
                <th scope="row">
                  <span class="mono">{id}</span> <span class="muted">this one</span>
                </th>
                <td class="n">{whole(totals.running)}</td>
                <td class="n">{short(totals.requests_per_second)}</td>
                <td class="n">{short(totals.tokens_per_second)}</td>
              </tr>
              {others.map(({ router_id: other, bookings }) => (
                <tr key={other}>
                  <th scope="row" class="mono">
                    {other}
                  </th>
                  <td class="n">{whole(bookings)}</td>
                  <td class="n muted" colSpan={2}>
                    only at its own console
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {leftOut > 0 && <p class="muted">{leftOut} further routers are left out.</p>}
    </>
  );
}
