/**
 * Secrets that a frontend on a server passes to the functions of its fleet, through a table.
 *
 * Everyone who may read a function's configuration sees its variables. Secrets Manager cannot be reached from a network
 * without a way to the internet, unless that way is paid for. A DynamoDB table can be reached for free, and functions
 * cannot start without DynamoDB anyway. The service that starts a container gives it the secrets, and the container
 * writes them to the table.
 *
 *     pk           sk       attributes
 *     v1/secrets   fleet    secrets (JSON: variables by name), superseded (digests of the previous ones), since and a
 *     digest
 *                           (when the secrets with that digest were first passed, Unix ms)
 */
import { createHash } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { systemClock as clock, systemRandom as random } from '../clock/index.ts';
import type { Settings } from '../config/index.ts';
import { StoreError, Table, type TablePlace, TableTime } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import { isRecord } from '../records/index.ts';
import type { Logger } from '../telemetry/index.ts';

type PassedSettings = Pick<
  Settings<'frontend'>,
  | 'secretsTable'
  | 'dynamodbEndpoint'
  | 'awsRegion'
  | 'planeToken'
  | 'planeTokenPrevious'
  | 'idSecret'
  | 'idSecretPrevious'
>;

/** Settings that are passed, by the name of their variable. */
const PASSED = {
  STATOR_PLANE_TOKEN: 'planeToken',
  STATOR_PLANE_TOKEN_PREVIOUS: 'planeTokenPrevious',
  STATOR_ID_SECRET: 'idSecret',
  STATOR_ID_SECRET_PREVIOUS: 'idSecretPrevious',
} as const satisfies Readonly<Record<string, keyof PassedSettings>>;

/** Variables that functions receive through the table. */
export const PASSED_VARIABLES = Object.keys(PASSED);

const KEY = { pk: 'v1/secrets', sk: 'fleet' } as const;
/** Longest wait for one answer of the table, and for one read or write with all its attempts. */
const ANSWER_MS_MAX = 1000;
const OPERATION_MS_MAX = 2500;
/** Pause between two attempts to write secrets; it doubles up to the maximum. */
const PAUSE_MS = 5000;
const PAUSE_MS_MAX = 60_000;

class PassedSecretsError extends StoreError {
  override readonly name = 'PassedSecretsError';
}

/** Reads the text of the item. Rejects with one line if no frontend has written it yet, or the table cannot be read. */
export async function readPassedSecrets(settings: PassedSettings): Promise<string> {
  const { table, place } = await openTable(settings);
  try {
    const item = await table.attempt(OPERATION_MS_MAX, widened(), (signal) => table.get(KEY, signal));
    const text = item?.secrets?.S;
    if (text !== undefined) return text;
    const hint = 'A frontend in a container that has STATOR_SECRETS_TABLE, too, writes them when it starts';
    throw new PassedSecretsError('unavailable', `${place.kind} "${place.tableName}" has no secrets yet. ${hint}`);
  } finally {
    table.close();
  }
}

/** Returns the variables that a text of the table contains. @throws Error that does not show the text */
export function passedVariables(text: string): Readonly<Record<string, string>> {
  const refusal = 'the table does not hold the secrets that a frontend passes';
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Error(refusal); // the parser's own message quotes the text
  }
  if (!isRecord(parsed)) throw new Error(refusal);
  const known = Object.entries(parsed).filter(([name]) => PASSED_VARIABLES.includes(name));
  if (known.length === 0 || known.some(([, value]) => typeof value !== 'string')) throw new Error(refusal);
  return Object.fromEntries(known) as Record<string, string>;
}

/** An attempt to pass secrets, which lasts until it succeeds or is stopped. */
export interface PassingSecrets {
  /** Resolves when the attempt has ended; never rejects. For tests. */
  readonly ended: Promise<void>;
  /** Time at which the secrets that functions have were first passed, in Unix ms; undefined until it is known. */
  readonly sinceMs: number | undefined;
  stop(): void;
}

/**
 * Passes the secrets of this process once, and tries again until the table takes them. A process that started before a
 * rotation does not replace newer secrets. Returns undefined if the settings name no table, or there is nothing to
 * pass.
 */
export function passSecrets(settings: PassedSettings, logger: Logger): PassingSecrets | undefined {
  const secrets = secretsOf(settings);
  if (settings.secretsTable === undefined || secrets === undefined) return undefined;
  const stopping = new AbortController();
  let sinceMs: number | undefined;
  const ended = passUntilTaken(settings, secrets, stopping.signal, logger)
    .then((first) => {
      sinceMs = first;
    })
    .catch((thrown: unknown) => {
      if (!stopping.signal.aborted) logger.error('secrets are not passed to functions', { reason: reasonOf(thrown) });
    });
  return {
    ended,
    get sinceMs() {
      return sinceMs;
    },
    stop: () => stopping.abort(),
  };
}

async function passUntilTaken(
  settings: PassedSettings,
  secrets: Readonly<Record<string, string>>,
  signal: AbortSignal,
  logger: Logger,
): Promise<number | undefined> {
  const { table } = await openTable(settings);
  try {
    for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
      try {
        const outcome = await table.attempt(OPERATION_MS_MAX, widened(signal), (each) => put(table, secrets, each));
        const { isApplied } = outcome;
        logger.info(isApplied ? 'secrets are passed to functions' : 'functions have newer secrets than this process');
        return isApplied ? Number(outcome.item?.[markOf(secrets)]?.N) : undefined;
      } catch (thrown) {
        signal.throwIfAborted();
        logger.warn('secrets cannot be passed to functions; trying again', { reason: reasonOf(thrown) });
      }
      await clock.sleep(pauseMs, signal);
    }
  } finally {
    table.close();
  }
}

function put(table: Table, secrets: Readonly<Record<string, string>>, signal: AbortSignal) {
  const { STATOR_PLANE_TOKEN: token, STATOR_ID_SECRET: id } = secrets;
  const previous = [secrets.STATOR_PLANE_TOKEN_PREVIOUS, secrets.STATOR_ID_SECRET_PREVIOUS];
  const superseded = previous.flatMap((secret) => (secret === undefined ? [] : [digest(secret)])).join() || 'none';
  const condition = 'attribute_not_exists(pk) OR NOT (contains(superseded, :token) OR contains(superseded, :id))';
  const mark = markOf(secrets);
  const values = {
    ':token': digest(token),
    ':id': digest(id),
    ':secrets': JSON.stringify(secrets),
    ':superseded': superseded,
    ':now': clock.wallMs(),
  };
  return table.updateAndGet(
    `SET secrets = :secrets, superseded = :superseded, ${mark} = if_not_exists(${mark}, :now)`,
    { key: KEY, condition, values },
    signal,
  );
}

/**
 * Returns the attribute that says since when these secrets are in force. Attributes of earlier secrets stay: a few
 * bytes for each rotation.
 */
function markOf({ STATOR_PLANE_TOKEN: token, STATOR_ID_SECRET: id }: Readonly<Record<string, string>>): string {
  return `since${digest(`${digest(token)}${digest(id)}`).slice(0, 16)}`;
}

/** Returns a digest that identifies a secret. Without a secret it is a digest that no secret has. */
function digest(secret = ''): string {
  return createHash('sha256').update(`stator superseded\0${secret}`).digest('hex');
}

function secretsOf(settings: PassedSettings): Readonly<Record<string, string>> | undefined {
  const given = Object.entries(PASSED).flatMap(([variable, name]) => {
    const value = settings[name];
    return value == null ? [] : [[variable, value] as const];
  });
  return given.length === 0 ? undefined : Object.fromEntries(given);
}

async function openTable({ secretsTable, dynamodbEndpoint: endpoint, awsRegion: region }: PassedSettings) {
  const place: TablePlace = {
    tableName: secretsTable ?? '',
    endpoint,
    region,
    kind: 'secrets table',
    setting: 'STATOR_SECRETS_TABLE',
    toError: (code, message, cause) => new PassedSecretsError(code, message, cause),
  };
  const time = new TableTime(clock);
  return { table: await Table.open(place, { clock, random, time, requestTimeoutMs: ANSWER_MS_MAX }), place };
}

/** A signal that every attempt of an operation may listen to. */
function widened(signal = new AbortController().signal): AbortSignal {
  setMaxListeners(0, signal);
  return signal;
}
