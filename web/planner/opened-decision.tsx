import type { ComponentChildren } from 'preact';
import type { ConsoleDecision } from '../../shared/console/planner/wire.ts';
import { short } from '../format.ts';
import { linkTo } from '../route.ts';
import { changeOf, Moment, Outcome } from './decision-table.tsx';
import type { Planner } from './use-planner.ts';

interface OpenedProps {
  readonly planner: Planner;
  readonly id: number;
  readonly model: string | undefined;
}

/** One decision: its sentence, the numbers behind it, and what became of it. */
export function OpenedDecision({ planner: { decisions }, id, model }: OpenedProps) {
  const decision = decisions.find((each) => each.id === id);
  return (
    <div class="card opened">
      {decision === undefined ? <p>Decision #{id} is not among the last ones.</p> : <Detail decision={decision} />}
      <p>
        <a href={linkTo(['planner'], { model })}>Close</a>
      </p>
    </div>
  );
}

function Detail({ decision }: { readonly decision: ConsoleDecision }) {
  const { id, reason, outcome_words: words, problem, details, inputs, at_ms: atMs, begun_ms: begunMs } = decision;
  return (
    <>
      <h3>
        Decision #{id}: {changeOf(decision)}
      </h3>
      <p>{reason}</p>
      <p>
        <Outcome decision={decision} />
        <span class="muted">
          {words}
          {problem !== null && `: ${problem}`}
        </span>
      </p>
      {details.length > 0 && (
        <ul>
          {details.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      )}
      <h3>Inputs</h3>
      <dl class="facts">
        <Fact name="decided">
          <Moment ms={atMs} />
        </Fact>
        {begunMs !== null && (
          <Fact name="begun">
            <Moment ms={begunMs} />
          </Fact>
        )}
        {Object.entries(inputs).map(([name, value]) => (
          <Fact key={name} name={name.replaceAll('_', ' ')}>
            {typeof value === 'number' ? short(value) : value}
          </Fact>
        ))}
      </dl>
    </>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
