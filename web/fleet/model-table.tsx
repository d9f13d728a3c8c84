import type { ConsoleModel } from '../../shared/console/wire/fleet.ts';
import { duration, percent, short, whole } from '../format.ts';
import { linkTo } from '../route.ts';
import { Scroll } from '../scroll.tsx';
import type { Fleet } from './use-fleet.ts';

interface TableProps {
  readonly fleet: Fleet;
  readonly chosen: string | undefined;
  /** Form of the workers below, which a link keeps. */
  readonly form: string | undefined;
}

/** Models with their figures of the last minute. A model can be chosen for the charts. */
export function ModelTable({ fleet, chosen, form }: TableProps) {
  const models = [...fleet.models.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  if (models.length === 0) return <p class="muted">No worker has registered a model yet.</p>;
  return (
    <Scroll label="Table of models">
      <table>
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col">State</th>
            <th scope="col" class="n">
              Workers
            </th>
            <th scope="col" class="n">
              Running
            </th>
            <th scope="col" class="n">
              Requests/s
            </th>
            <th scope="col" class="n">
              Tokens/s
            </th>
            <th scope="col" class="n">
              TTFT p50
            </th>
            <th scope="col" class="n">
              p95
            </th>
            <th scope="col" class="n">
              ITL p50
            </th>
            <th scope="col" class="n">
              p95
            </th>
            <th scope="col" class="n">
              Cache hits
            </th>
            <th scope="col" class="n">
              Context
            </th>
          </tr>
        </thead>
        <tbody>
          {models.map((model) => (
            <ModelRow key={model.name} model={model} isChosen={model.name === chosen} form={form} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

interface RowProps {
  readonly model: ConsoleModel;
  readonly isChosen: boolean;
  readonly form: string | undefined;
}

function ModelRow({ model, isChosen, form }: RowProps) {
  const { name, figures, base_model: base } = model;
  return (
    <tr class={isChosen ? 'chosen' : undefined}>
      <th scope="row">
        <a
          href={linkTo(['fleet'], { model: isChosen ? undefined : name, as: form })}
          aria-current={isChosen ? 'true' : undefined}
        >
          {name}
        </a>
        {base !== null && <span class="muted"> on {base}</span>}
      </th>
      <td>
        {model.is_ready ? <State name="ready" /> : <State name="not ready" tone="stalled" />}
        {model.reason !== null && <span class="muted"> {model.reason}</span>}
      </td>
      <td class="n">{model.workers}</td>
      <td class="n">{whole(figures?.running)}</td>
      <td class="n">{short(figures?.requests_per_second)}</td>
      <td class="n">{short(figures?.tokens_per_second)}</td>
      <td class="n">{duration(figures?.ttft_ms?.p50)}</td>
      <td class="n">{duration(figures?.ttft_ms?.p95)}</td>
      <td class="n">{duration(figures?.itl_ms?.p50)}</td>
      <td class="n">{duration(figures?.itl_ms?.p95)}</td>
      <td class="n">{percent(figures?.hit_rate)}</td>
      <td class="n">{model.context_tokens === 0 ? '–' : short(model.context_tokens)}</td>
    </tr>
  );
}

/** A state as a word with its colour. */
export function State({ name, tone = name }: { readonly name: string; readonly tone?: string }) {
  return <span class={`state ${tone}`}>{name}</span>;
}
