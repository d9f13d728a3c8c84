import type { ConsolePoint } from '../../shared/console/planner/wire.ts';
import { short } from '../format.ts';
import { Scroll } from '../scroll.tsx';
import { PHASES } from './phases.ts';

/** Workers of each capacity option by the phase of their life, as the latest record has them. */
export function PhaseTable({ point }: { readonly point: ConsolePoint | undefined }) {
  const options = Object.entries(point?.workers ?? {});
  if (options.length === 0) return <p class="muted">The latest record has no workers.</p>;
  const shown = PHASES.filter(([phase]) => phase === 'serving' || options.some(([, of]) => (of[phase] ?? 0) > 0));
  return (
    <Scroll label="Table of workers by option and phase">
      <table>
        <thead>
          <tr>
            <th scope="col">Option</th>
            {shown.map(([phase, word]) => (
              <th key={phase} scope="col" class="n">
                {word}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {options.map(([key, counts]) => (
            <tr key={key}>
              <th scope="row">{key}</th>
              {shown.map(([phase]) => (
                <td key={phase} class="n">
                  {short(counts[phase] ?? 0)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
