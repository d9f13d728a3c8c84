import { isRecord } from '../../../records/index.ts';

/** What every chunk and object of one answer says of itself. */
export interface WireNames {
  /** `chatcmpl-<id>` or `cmpl-<id>`. */
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  /** Primary name of the model, also when an alias was asked for. */
  readonly model: string;
}

/** A worker's own chunk under the answer's names: clients must not see the worker's ids or file names. */
export function withWireNames(body: unknown, names: WireNames): unknown {
  if (!isRecord(body)) return body;
  return { ...body, id: names.id, created: names.created, model: names.model };
}

/** A worker's own chunk of one prompt, with the choices where they stand in the whole batch. */
export function withFirstChoice(body: unknown, firstChoice: number): unknown {
  if (firstChoice === 0 || !isRecord(body)) return body;
  const { choices } = body;
  if (!Array.isArray(choices)) return body;
  const moved = choices.map((choice) => ({ ...choice, index: firstChoice + (Number(choice?.index) || 0) }));
  return { ...body, choices: moved };
}
