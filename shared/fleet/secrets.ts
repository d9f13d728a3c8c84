/** Secrets that a process reads for itself: the environment names them, Secrets Manager has them. */
import type { Clock } from '../clock/index.ts';
import { reasonOf } from '../errors/index.ts';
import { isRecord } from '../records/index.ts';
import type { Logger } from '../telemetry/index.ts';

export interface SecretWatchOptions {
  readonly clock: Clock;
  /** Age at which the secrets are read again. */
  readonly ageMsMax: number;
  readonly logger: Logger;
}

/** Notices that a secret was rotated, when it is asked to look. */
export class SecretWatch {
  readonly #secrets: Secrets;
  readonly #options: SecretWatchOptions;
  #readAtMs: number;
  #isOutdated = false;

  constructor(secrets: Secrets, options: SecretWatchOptions) {
    this.#secrets = secrets;
    this.#options = options;
    this.#readAtMs = options.clock.nowMs();
  }

  /** A secret says something else than what the process runs on. */
  get isOutdated(): boolean {
    return this.#isOutdated;
  }

  /** Reads the secrets again where that was too long ago. Never rejects: what cannot be read is as it was. */
  async look(): Promise<void> {
    const { clock, ageMsMax, logger } = this.#options;
    if (this.#isOutdated || clock.nowMs() - this.#readAtMs < ageMsMax) return;
    this.#readAtMs = clock.nowMs();
    try {
      this.#isOutdated = await this.#secrets.haveChanged();
      if (this.#isOutdated) logger.info('a secret was rotated');
    } catch (thrown) {
      logger.warn('secrets cannot be read again; those of before stand', { reason: reasonOf(thrown) });
    }
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

export interface SecretsOptions {
  /** Text of a secret by its name or ARN. @default Secrets Manager, with the credentials of the process */
  readonly read?: ReadSecret;
}

/** Reads the text of a secret, or rejects. Bounded in time by itself. */
export type ReadSecret = (id: string) => Promise<string>;

/** The environment of a process with what its secrets say. */
export interface Secrets {
  readonly env: Environment;
  /** Whether any of them says something else now. Rejects, in one line, when one cannot be read. */
  haveChanged(): Promise<boolean>;
}

/** A variable that names a secret, and the variables that the secret's text stands for. */
interface Named {
  readonly variable: string;
  readonly replaces: readonly string[];
  readonly toVariables: (text: string) => Readonly<Record<string, string>>;
}

const NAMED: readonly Named[] = [
  {
    variable: 'STATOR_PLANE_TOKEN_SECRET',
    replaces: ['STATOR_PLANE_TOKEN'],
    toVariables: (text) => ({ STATOR_PLANE_TOKEN: text }),
  },
  {
    variable: 'STATOR_NATS_SECRET',
    replaces: ['NATS_AUTH_USERNAME', 'NATS_AUTH_PASSWORD', 'NATS_AUTH_TOKEN'],
    toVariables: natsVariables,
  },
];

/**
 * Reads the secrets that `env` names, all at once. Where it names none it is given back, and nothing is loaded or asked.
 * @throws Error with one line that names the variable and says what to do
 */
export async function openSecrets(
  env: Environment,
  { read = readFromService() }: SecretsOptions = {},
): Promise<Secrets> {
  const named = NAMED.filter(({ variable }) => (env[variable] ?? '') !== '');
  for (const { variable, replaces } of named) {
    const rival = replaces.find((name) => (env[name] ?? '') !== '');
    if (rival !== undefined) throw new Error(`${variable} and ${rival} contradict each other: leave out one of them`);
  }
  const readAll = (): Promise<Record<string, string>[]> =>
    Promise.all(named.map(async (each) => ({ ...variablesOf(each, await readNamed(each, env, read)) })));
  const first = await readAll();
  return {
    env: Object.assign({ ...env }, ...first),
    haveChanged: async () => JSON.stringify(await readAll()) !== JSON.stringify(first),
  };
}

async function readNamed({ variable }: Named, env: Environment, read: ReadSecret): Promise<string> {
  const id = env[variable] ?? '';
  try {
    return await read(id);
  } catch (cause) {
    const hint = 'Check the name, the region, and that the role may secretsmanager:GetSecretValue on it';
    throw new Error(`${variable}: cannot read secret "${id}": ${reasonOf(cause)}. ${hint}`, { cause });
  }
}

function variablesOf({ variable, toVariables }: Named, text: string): Readonly<Record<string, string>> {
  try {
    return toVariables(text);
  } catch (cause) {
    throw new Error(`${variable}: ${reasonOf(cause)}`, { cause }); // says nothing of the secret itself
  }
}

/** A user of NATS as JSON with `username` and `password`, or else a token. */
function natsVariables(text: string): Readonly<Record<string, string>> {
  if (!text.trimStart().startsWith('{')) return { NATS_AUTH_TOKEN: text };
  const { username, password } = parseRecord(text);
  if (typeof username !== 'string' || typeof password !== 'string' || username === '' || password === '') {
    throw new Error('the secret must be a token, or JSON with username and password, both texts that are not empty');
  }
  return { NATS_AUTH_USERNAME: username, NATS_AUTH_PASSWORD: password };
}

function parseRecord(text: string): Readonly<Record<string, unknown>> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Error('the secret begins as JSON and is none'); // the parser's own words quote the text
  }
  return isRecord(parsed) ? parsed : {};
}

const ATTEMPTS_MAX = 3;
const ANSWER_MS_MAX = 3000;

/** One client for all secrets of a process, made by the first. */
function readFromService(): ReadSecret {
  let opening: ReturnType<typeof openClient> | undefined;
  return async (SecretId) => {
    opening ??= openClient();
    const { client, GetSecretValueCommand } = await opening;
    const abortSignal = AbortSignal.timeout(ATTEMPTS_MAX * ANSWER_MS_MAX);
    const { SecretString } = await client.send(new GetSecretValueCommand({ SecretId }), { abortSignal });
    if (SecretString === undefined) throw new Error('it is binary, and text is wanted');
    return SecretString;
  };
}

async function openClient() {
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ||= 'true'; // the SDK is pinned; its notice tells operators nothing
  const { GetSecretValueCommand, SecretsManagerClient } = await import('./secret-parts.ts');
  const requestHandler = { connectionTimeout: ANSWER_MS_MAX, requestTimeout: ANSWER_MS_MAX };
  return { client: new SecretsManagerClient({ maxAttempts: ATTEMPTS_MAX, requestHandler }), GetSecretValueCommand };
}
