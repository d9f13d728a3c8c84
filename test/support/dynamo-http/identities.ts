import type { Exchange } from './exchange.ts';
import { type Body, isBatch } from './fields.ts';
import type { Answer } from './records.ts';

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/;
const OWN_UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Returns the JSON objects of an answer, in order. */
export function objectsOf({ body, frames }: Answer): readonly Body[] {
  const values: readonly unknown[] = [body, ...(frames ?? []).map(({ data }) => data)];
  return values.filter((value): value is Body => typeof value === 'object' && value !== null && !Array.isArray(value));
}

/** Finds ids of an answer that contradict one another, the request, or the registered workers. */
export function identityFaults(exchange: Exchange, answer: Answer): readonly string[] {
  const objects = objectsOf(answer);
  return [
    ...answerIdFaults(exchange, answer, objects),
    ...responseFaults(objects),
    ...callFaults(objects),
    ...workerIdFaults(exchange, objects),
  ];
}

/**
 * Checks that all chunks have one id, followed by the index of the prompt in a batch. It must be the client's own id if
 * the client gave one.
 */
function answerIdFaults({ row }: Exchange, answer: Answer, objects: readonly Body[]): string[] {
  const ids = objects.filter(({ choices }) => Array.isArray(choices)).map(({ id }) => String(id));
  const bare = new Set(ids.map((id) => (isBatch(row) ? id.replace(/-\d$/, '') : id)));
  const faults = bare.size > 1 ? [`ids of one answer differ: ${[...bare].join(', ')}`] : [];
  const named = row.request.headers?.find(([name]) => name === 'x-dynamo-request-id')?.[1];
  const own = named !== undefined && new RegExp(`^${UUID.source}$`).test(named) ? named : undefined;
  for (const id of bare) {
    const uuid = id.replace(/^[a-z]+-/, '');
    if (own === undefined ? !OWN_UUID.test(uuid) : uuid !== own) faults.push(`id ${id}`);
  }
  const told = (answer.frames ?? []).find(({ event }) => event === 'request_id')?.comment;
  if (told !== undefined && ids[0] !== undefined && !ids[0].endsWith(String(told).replaceAll('"', ''))) {
    faults.push(`request id ${told} of ${ids[0]}`);
  }
  return faults;
}

/** Checks that there is one response, whose items keep their ids from their first event to the last list. */
function responseFaults(objects: readonly Body[]): string[] {
  const responses = [...objects, ...objects.map(({ response }) => response as Body | undefined)].filter(
    (response): response is Body => response?.object === 'response',
  );
  const faults = new Set(responses.map(({ id }) => id)).size > 1 ? ['ids of one response differ'] : [];
  const items = new Map<unknown, unknown>();
  for (const { type, output_index: at, item } of objects) {
    if (type === 'response.output_item.added') items.set(at, (item as Body).id);
  }
  for (const { output_index: at, item, item_id: id = (item as Body | undefined)?.id } of objects) {
    if (at !== undefined && id !== items.get(at)) faults.push(`item ${at} is called ${id} and ${items.get(at)}`);
  }
  const output = (responses.at(-1)?.output ?? []) as Body[];
  for (const [at, { id }] of output.entries()) {
    if (items.size > 0 && id !== items.get(at)) faults.push(`item ${at} ends as ${id}`);
  }
  if (new Set(output.map(({ id }) => id)).size < output.length) faults.push('two items have one id');
  return faults;
}

/** Checks that no two calls of one answer share an id. */
function callFaults(objects: readonly Body[]): string[] {
  const ids: string[] = [];
  for (const { choices, content, content_block: block } of objects) {
    for (const { message, delta, index: choice } of Array.isArray(choices) ? (choices as Body[]) : []) {
      const calls = ((message ?? delta ?? {}) as { tool_calls?: Body[] }).tool_calls ?? [];
      ids.push(...calls.filter(({ id }) => id !== undefined).map(({ id }) => `${choice} ${id}`));
    }
    for (const { type, id } of Array.isArray(content) ? (content as Body[]) : [])
      if (type === 'tool_use') ids.push(`${id}`);
    if ((block as Body | undefined)?.type === 'tool_use') ids.push(`${(block as Body).id}`);
  }
  return new Set(ids).size < ids.length ? [`two calls have one id: ${ids.join(', ')}`] : [];
}

const WORKER_KEYS = ['prefill_worker_id', 'decode_worker_id', 'backend_instance_id', 'instance_id'] as const;

/** Checks that each worker id is that of a worker of the model. */
function workerIdFaults({ row, instances }: Exchange, objects: readonly Body[]): string[] {
  const own = row.served === undefined ? undefined : instances.get(row.served.name);
  const known = new Set([...instances.values()].map(asDecimal));
  const faults: string[] = [];
  walk(objects, (value) => {
    for (const key of WORKER_KEYS) {
      const id = value[key];
      if (id === undefined || id === null) continue;
      const isRight =
        key === 'instance_id' || own === undefined ? known.has(String(id)) : String(id) === asDecimal(own);
      if (!isRight) faults.push(`${key} ${JSON.stringify(id)}`);
    }
  });
  return faults;
}

function asDecimal(instanceId: string): string {
  return BigInt(`0x${instanceId}`).toString();
}

/** Calls `visit` with every object inside `value`. */
export function walk(value: unknown, visit: (object: Body) => void): void {
  if (Array.isArray(value)) for (const item of value) walk(item, visit);
  else if (typeof value === 'object' && value !== null) {
    visit(value as Body);
    for (const nested of Object.values(value)) walk(nested, visit);
  }
}
