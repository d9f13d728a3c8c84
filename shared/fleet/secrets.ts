/** Secrets that a process reads itself: the environment names them, Secrets Manager stores them. */
import type { Clock } from '../clock/index.ts';
import { quietSdkNotice } from '../discovery/index.ts';
import { loadCode, reasonOf } from '../errors/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { PASSED_VARIABLES, passedVariables } from './passed-secrets.ts';
import { secretFields } from './secret-text.ts';

export interface SecretWatchOptions {
  readonly clock: Clock;
  /** Age at which the watch reads the secrets again. */
  readonly ageMsMax: number;
  readonly logger: Logger;
}

/** Notices that a secret was rotated, each time that its owner calls `look`. */
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

  /** Whether a secret differs from the one that the process runs with. */
  get isOutdated(): boolean {
    return this.#isOutdated;
  }

  /**
   * Reads the secrets again if the last reading is too old. Never rejects: secrets that cannot be read count as
   * unchanged.
   */
  async look(): Promise<void> {
    const { clock, ageMsMax, logger } = this.#options;
    if (this.#isOutdated || clock.nowMs() - this.#readAtMs < ageMsMax) return;
    this.#readAtMs = clock.nowMs();
    try {
      this.#isOutdated = await this.#secrets.haveChanged();
      if (this.#isOutdated) logger.info('a secret was rotated');
    } catch (thrown) {
      logger.warn('secrets cannot be read again; the earlier ones stay in use', { reason: reasonOf(thrown) });
    }
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

export interface SecretsOptions {
  /** Reads a secret by its name or ARN. @default from Secrets Manager, with the credentials of the process */
  readonly read?: ReadSecret;
  /**
   * Reads the secrets that a frontend has passed, for a process that receives them (`STATOR_SECRETS_TABLE`). @default
   * the table is not read
   */
  readonly readPassed?: () => Promise<string>;
}

/** The version of a secret that is in force, or the one before it, as long as Secrets Manager keeps that. */
type SecretStage = 'AWSCURRENT' | 'AWSPREVIOUS';

/**
 * Reads the text of a secret. Returns undefined if the secret has no such version, and rejects if it cannot be read. It
 * limits its own time.
 */
export type ReadSecret = (id: string, stage: SecretStage) => Promise<string | undefined>;

/** The environment of a process, with the values of its secrets. */
export interface Secrets {
  readonly env: Environment;
  /** Returns whether any secret differs now. Rejects, with one line, if one cannot be read. */
  haveChanged(): Promise<boolean>;
}

/** A variable that names a secret, and the variables that the secret's text replaces. */
interface Named {
  readonly variable: string;
  readonly replaces: readonly string[];
  /** Whether it names a table in which a frontend has left the secrets. @default false: a secret of Secrets Manager */
  readonly isPassed?: boolean;
  /** Whether the version before the current one is also read. @default false */
  readonly hasPrevious?: boolean;
  /** Converts the text to variables. @param previous text of the version before */
  readonly toVariables: (text: string, previous?: string) => Readonly<Record<string, string>>;
}

const NAMED: readonly Named[] = [
  {
    variable: 'STATOR_PLANE_TOKEN_SECRET',
    replaces: ['STATOR_PLANE_TOKEN', 'STATOR_PLANE_TOKEN_PREVIOUS'],
    hasPrevious: true,
    toVariables: (text, previous) => rotatedVariables('STATOR_PLANE_TOKEN', text, previous),
  },
  {
    variable: 'STATOR_ID_SECRET_SECRET',
    replaces: ['STATOR_ID_SECRET', 'STATOR_ID_SECRET_PREVIOUS'],
    hasPrevious: true,
    toVariables: (text, previous) => rotatedVariables('STATOR_ID_SECRET', text, previous),
  },
  {
    variable: 'STATOR_NATS_SECRET',
    replaces: ['NATS_AUTH_USERNAME', 'NATS_AUTH_PASSWORD', 'NATS_AUTH_TOKEN'],
    toVariables: natsVariables,
  },
  {
    variable: 'STATOR_SECRETS_TABLE',
    replaces: [...PASSED_VARIABLES, 'STATOR_PLANE_TOKEN_SECRET', 'STATOR_ID_SECRET_SECRET'],
    isPassed: true,
    toVariables: passedVariables,
  },
];

/**
 * Reads the secrets that `env` names, all at once. If it names no secret, returns `env` and loads nothing.
 * @throws Error with one line that names the variable and says what to do
 */
export async function openSecrets(
  env: Environment,
  { read = readFromService(), readPassed }: SecretsOptions = {},
): Promise<Secrets> {
  const named = NAMED.filter(
    ({ variable, isPassed = false }) => (env[variable] ?? '') !== '' && (!isPassed || readPassed !== undefined),
  );
  for (const { variable, replaces } of named) {
    const rival = replaces.find((name) => (env[name] ?? '') !== '');
    if (rival !== undefined) throw new Error(`${variable} and ${rival} contradict each other: leave out one of them`);
  }
  const readAll = (): Promise<Record<string, string>[]> =>
    Promise.all(
      named.map(async (each) => {
        const { isPassed = false } = each;
        const texts: SecretTexts = isPassed && readPassed ? [await readPassed()] : await readNamed(each, env, read);
        return { ...variablesOf(each, texts) };
      }),
    );
  const first = await readAll();
  return {
    env: Object.assign({ ...env }, ...first),
    haveChanged: async () => JSON.stringify(await readAll()) !== JSON.stringify(first),
  };
}

/** The version in force, and the version before it if it is read and exists. */
type SecretTexts = readonly [text: string, previous?: string];

async function readNamed(
  { variable, hasPrevious = false }: Named,
  env: Environment,
  read: ReadSecret,
): Promise<SecretTexts> {
  const id = env[variable] ?? '';
  try {
    const [text, previous] = await Promise.all([
      read(id, 'AWSCURRENT'),
      hasPrevious ? read(id, 'AWSPREVIOUS') : undefined,
    ]);
    if (text === undefined) throw new Error('it has no version that is in force');
    return previous === undefined ? [text] : [text, previous];
  } catch (cause) {
    const hint = 'Check the name, the region, and that the role may secretsmanager:GetSecretValue on it';
    throw new Error(`${variable}: cannot read secret "${id}": ${reasonOf(cause)}. ${hint}`, { cause });
  }
}

function variablesOf({ variable, toVariables }: Named, texts: SecretTexts): Readonly<Record<string, string>> {
  try {
    return toVariables(...texts);
  } catch (cause) {
    throw new Error(`${variable}: ${reasonOf(cause)}`, { cause }); // does not show the secret
  }
}

/** Least length of the secrets that rotate, as the table of settings has it. */
const TOKEN_LENGTH_MIN = 32;

/**
 * Returns the variables of a secret that rotates: JSON with `current` and `previous`, as `stator secrets rotate` writes
 * it, or plain text.
 */
function rotatedVariables(variable: string, text: string, older?: string): Readonly<Record<string, string>> {
  const fields = secretFields(text);
  if (fields === undefined) {
    // A shorter version, such as the placeholder of a new secret, was never in use: every process refuses it.
    const wasInUse = older !== undefined && older.length >= TOKEN_LENGTH_MIN;
    return { [variable]: text, ...(wasInUse && { [`${variable}_PREVIOUS`]: older }) };
  }
  const { current, previous = 'none' } = fields;
  if (typeof current !== 'string' || current === '' || typeof previous !== 'string') {
    throw new Error('the secret must be a text, or JSON with current and previous, both texts');
  }
  return { [variable]: current, [`${variable}_PREVIOUS`]: previous };
}

/** Returns the variables of a secret for NATS: JSON with `username` and `password`, or a token. */
function natsVariables(text: string): Readonly<Record<string, string>> {
  const fields = secretFields(text);
  if (fields === undefined) return { NATS_AUTH_TOKEN: text };
  const { username, password } = fields;
  if (typeof username !== 'string' || typeof password !== 'string' || username === '' || password === '') {
    throw new Error('the secret must be a token, or JSON with username and password, both texts that are not empty');
  }
  return { NATS_AUTH_USERNAME: username, NATS_AUTH_PASSWORD: password };
}

const ATTEMPTS_MAX = 3;
const ANSWER_MS_MAX = 3000;

/** Returns a reader of Secrets Manager with one client for all secrets of a process, created by the first reading. */
function readFromService(): ReadSecret {
  let opening: ReturnType<typeof openClient> | undefined;
  return async (SecretId, VersionStage) => {
    opening ??= openClient();
    const { client, GetSecretValueCommand } = await opening;
    const abortSignal = AbortSignal.timeout(ATTEMPTS_MAX * ANSWER_MS_MAX);
    const command = new GetSecretValueCommand({ SecretId, VersionStage });
    const { SecretString } = await client.send(command, { abortSignal }).catch((thrown: unknown) => {
      const isAbsent = thrown instanceof Error && thrown.name === 'ResourceNotFoundException';
      if (isAbsent && VersionStage === 'AWSPREVIOUS') return { SecretString: null }; // it was never rotated
      throw thrown;
    });
    if (SecretString === null) return undefined;
    if (SecretString === undefined) throw new Error('it is binary, but must be text');
    return SecretString;
  };
}

async function openClient() {
  quietSdkNotice();
  const { GetSecretValueCommand, SecretsManagerClient } = await loadCode(
    'Secrets Manager',
    () => import('./secret-parts.ts'),
  );
  const requestHandler = { connectionTimeout: ANSWER_MS_MAX, requestTimeout: ANSWER_MS_MAX };
  return { client: new SecretsManagerClient({ maxAttempts: ATTEMPTS_MAX, requestHandler }), GetSecretValueCommand };
}
