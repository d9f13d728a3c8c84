import type { ModelType } from '../../discovery/index.ts';
import { nearestName, ServeError } from '../../errors/index.ts';
import { MODEL_TYPES } from '../../protocol/index.ts';
import { type RefusedModel, type ServedModel, servesType } from '../pipeline.ts';

/** The requested model, as far as the body was read. */
export interface AskedModel {
  /** Name of the model; undefined if the whole route has no model. */
  readonly name?: string | undefined;
  /** Kind of request; undefined = any. */
  readonly type?: ModelType | undefined;
  /** Models that this process knows and does not serve. @default none */
  readonly refused?: readonly RefusedModel[] | undefined;
  /** Whether more models may be served than this process knows. @default false */
  readonly isPart?: boolean | undefined;
  /** Field of the body with the name. */
  readonly param?: string | undefined;
}

/** Names that a message lists at most. */
const LISTED_MAX = 10;
/** Names that a wrong name is compared with at most. */
const COMPARED_MAX = 256;
const NAME_CHARS_MAX = 100;

const ELSEWHERE = '`GET /v1/models` lists the models that are served here.';

/**
 * Returns the error for a name that no worker registered, or not for that kind of request. The message lists the
 * models, and the nearest name.
 */
export function modelNotFound(models: readonly ServedModel[], asked: AskedModel): ServeError {
  const subject = asked.name === undefined ? '' : `: ${quoted(asked.name)}`;
  const hint = refusalHint(models, asked) ?? (asked.isPart === true ? ELSEWHERE : missingModelHint(models, asked));
  const message = `Model not found${subject}. ${hint}`;
  return new ServeError('model_not_found', message, { param: asked.param });
}

/** Returns sentences about what to request instead. */
export function missingModelHint(models: readonly ServedModel[], asked: AskedModel): string {
  const refusal = refusalHint(models, asked);
  if (refusal !== undefined) return refusal;
  const { name, type } = asked;
  const served = models.filter((model) => model.readiness.isReady && (type === undefined || servesType(model, type)));
  const kind = Object.entries(MODEL_TYPES).find(([, modelType]) => modelType === type)?.[0] ?? 'such';
  const what = `${kind.replace(/s$/, '')} requests`;
  if (served.length === 0) return `No model that is served here takes ${what}.${othersServed(models)}`;
  const isOfOtherKind = models.some((model) => model.name === name);
  const about = isOfOtherKind ? [`It takes no ${what}.`] : suggestion(name, served);
  return [...about, listing(served)].join(' ');
}

/** Returns why the requested model is not served; undefined if it is served, or no worker has it. */
function refusalHint(models: readonly ServedModel[], { name, refused = [] }: AskedModel): string | undefined {
  const own = refused.find(({ model }) => model === name);
  if (own === undefined || models.some((model) => model.name === name)) return undefined;
  return `It is not served here: ${own.reason}.`;
}

/** Lists the names for other kinds of requests, because the client may only have chosen the wrong route. */
function othersServed(models: readonly ServedModel[]): string {
  const others = models.filter(({ readiness }) => readiness.isReady);
  return others.length === 0 ? '' : ` For others: ${listed(others)}.`;
}

function suggestion(name: string | undefined, served: readonly ServedModel[]): readonly string[] {
  if (name === undefined || name.length > NAME_CHARS_MAX) return [];
  const nearest = nearestName(
    name,
    served.slice(0, COMPARED_MAX).map((model) => model.name),
  );
  return nearest === undefined ? [] : [`Did you mean ${quoted(nearest)}?`];
}

function listing(served: readonly ServedModel[]): string {
  return `Served here: ${listed(served)}.`;
}

function listed(served: readonly ServedModel[]): string {
  const names = served.slice(0, LISTED_MAX).map(({ name }) => shortened(name));
  const more = served.length - names.length;
  return `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function quoted(name: string): string {
  return `\`${shortened(name)}\``;
}

function shortened(name: string): string {
  return name.length > NAME_CHARS_MAX ? `${name.slice(0, NAME_CHARS_MAX)}…` : name;
}

/** Pause before a client should retry. Workers take at least seconds to start, so an earlier retry would fail, too. */
const NOT_READY_RETRY_MS = 5000;

/** Returns the error for a known or remembered name while no namespace has all the workers that the model needs. */
export function modelNotReady(name: string): ServeError {
  const message =
    `Model \`${name}\` is not ready to serve requests yet. ` +
    'The deployment may still be starting up or is not fully provisioned. Please retry shortly.';
  return new ServeError('service_unavailable', message, { param: 'model', retryAfterMs: NOT_READY_RETRY_MS });
}
