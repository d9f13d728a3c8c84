import type { ConsoleCost } from '../../shared/console/wire/fleet.ts';
import { dollars, text, whole } from '../format.ts';
import { Scroll } from '../scroll.tsx';
import type { Fleet } from './use-fleet.ts';

/** Cost of the machines with workers now, as far as their prices are known. */
export function Cost({ fleet }: { readonly fleet: Fleet }) {
  const { cost } = fleet;
  return (
    <details class="cost">
      <summary>
        Machines with workers: <b>{dollars(cost.hour_usd)}</b> an hour{restOf(cost)}
      </summary>
      {cost.types.length === 0 ? (
        <p class="muted">No worker states its machine: only the agent of a machine (stator host) knows it.</p>
      ) : (
        <Scroll label="Table of costs">
          <table>
            <thead>
              <tr>
                <th scope="col">Type</th>
                <th scope="col">Market</th>
                <th scope="col" class="n">
                  Machines
                </th>
                <th scope="col" class="n">
                  US$ an hour each
                </th>
                <th scope="col" class="n">
                  US$ an hour
                </th>
              </tr>
            </thead>
            <tbody>
              {cost.types.map(({ type, market, machines, hour_usd: each }) => (
                <tr key={`${type} ${market}`}>
                  <th scope="row">{text(type)}</th>
                  <td>{text(market)}</td>
                  <td class="n">{whole(machines)}</td>
                  <td class="n">{dollars(each)}</td>
                  <td class="n">{dollars(each === null ? null : each * machines)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      <p class="muted small">Prices are those of --instance-prices; no other price is assumed.</p>
    </details>
  );
}

/** Returns what the sum does not contain. */
function restOf({ types, workers_without_machine: without }: ConsoleCost): string {
  const unknown = types.reduce((sum, { machines, hour_usd: each }) => (each === null ? sum + machines : sum), 0);
  const parts = [
    ...(unknown > 0 ? [`the price of ${whole(unknown)} machines is unknown`] : []),
    ...(without > 0 ? [`${whole(without)} workers do not state their machine`] : []),
  ];
  return parts.length === 0 ? '' : `; ${parts.join(', and ')}`;
}
