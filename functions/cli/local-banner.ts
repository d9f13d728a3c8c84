import type { Settings } from '../../shared/config/index.ts';
import { asksForKeys, type Frontend } from '../../shared/frontends/index.ts';
import type { LocalFleet } from './local-workers.ts';

export interface BannerFacts {
  /** Address of the server, without a slash at its end. */
  readonly url: string;
  /** Address of gRPC; undefined without it. */
  readonly grpcAddress: string | undefined;
  readonly fleet: LocalFleet;
  readonly settings: Settings<'local'>;
}

const QUESTION = 'What are you?';
const KEY_VARIABLE = 'STATOR_API_KEY';
const DOCS_PATH = '/docs';

/** Text that `stator local` prints when it is up: what runs, where it is, and requests to try that work as printed. */
export async function renderBanner(
  frontend: Frontend,
  { url, grpcAddress, fleet, settings }: BannerFacts,
): Promise<string> {
  const tried = await modelToTry(frontend);
  const tries = tried === undefined ? [] : ['  Try it:', ...requestFor(tried, url, settings), ''];
  const explains = tried !== undefined && tried.kind !== 'embeddings' && canExplain(settings);
  return [
    '',
    `  Stator is up: ${describeWorkers(fleet, settings.engine)}${scaled(settings)}, ${served(frontend)}`,
    `  OpenAI-compatible endpoint: ${url}/v1`,
    ...(grpcAddress === undefined ? [] : [`  KServe v2 by gRPC, for Triton's clients: ${grpcAddress}`]),
    ...clients(url, settings),
    ...consoleLine(url, settings),
    `  Every route, to try in a browser: ${url}${DOCS_PATH}`,
    '',
    ...tries,
    ...(explains ? [...explanation(tried.name, url, settings), ''] : []),
    `  Also there: ${settings.httpSvcModelsPath}  ${settings.httpSvcHealthPath}  ${settings.httpSvcMetricsPath}`,
    '  Stop with Ctrl-C.',
    '',
    '',
  ].join('\n');
}

function consoleLine(url: string, { consoleRequests, disableFrontendAdminApi }: Settings<'local'>): readonly string[] {
  if (consoleRequests === 0 || disableFrontendAdminApi) return [];
  return [`  Console, with the fleet and its requests: ${url}/console`];
}

/** Returns the variables that SDKs and agents read. None if the operator has chosen paths that they would miss. */
function clients(url: string, settings: Settings<'local'>): readonly string[] {
  const key = asksForKeys(settings) ? `$${KEY_VARIABLE}` : 'none';
  const openai =
    settings.httpSvcChatPath === '/v1/chat/completions' ? [`OPENAI_BASE_URL=${url}/v1`, `OPENAI_API_KEY=${key}`] : [];
  const anthropic = settings.enableAnthropicApi ? [`ANTHROPIC_BASE_URL=${url}`, `ANTHROPIC_API_KEY=${key}`] : [];
  const variables = [...openai, ...anthropic];
  return variables.length === 0 ? [] : [`  For clients: ${variables.join(' ')}`];
}

/** The model of the printed request, and the kind of that request. */
interface TriedModel {
  readonly name: string;
  readonly kind: 'chat' | 'completion' | 'embeddings';
}

/**
 * Finds the first model that answers a request of the banner; undefined if all make pictures, or if there is no model.
 */
async function modelToTry({ models, takesChats }: Frontend): Promise<TriedModel | undefined> {
  const listed = models.list();
  for (const model of listed) {
    const isChat = await takesChats(model).catch(() => false); // the log says why a model cannot be loaded
    if (isChat) return { name: model.name, kind: 'chat' };
  }
  const named = (type: 'Completions' | 'Embedding') => listed.find(({ card }) => card.model_type.includes(type))?.name;
  const completes = named('Completions');
  if (completes !== undefined) return { name: completes, kind: 'completion' };
  const embeds = named('Embedding');
  return embeds === undefined ? undefined : { name: embeds, kind: 'embeddings' };
}

function requestFor({ name, kind }: TriedModel, url: string, settings: Settings<'local'>): readonly string[] {
  const stream = { model: name, stream: true };
  const [path, body] = {
    chat: [settings.httpSvcChatPath, { ...stream, messages: [{ role: 'user', content: QUESTION }] }],
    completion: [settings.httpSvcCmpPath, { ...stream, max_tokens: 200, prompt: QUESTION }],
    embeddings: [settings.httpSvcEmbPath, { model: name, input: QUESTION }],
  }[kind] as [string, object];
  return [
    `    ${curl(settings)} -N ${url}${path} -H 'content-type: application/json' \\`,
    ...keyLine(settings),
    `      -d ${quoted(JSON.stringify(body))}`,
  ];
}

/**
 * Returns the line with the API key, if the edge requires keys. The key is the user's own, in a variable of the
 * environment.
 */
function keyLine(settings: Settings<'local'>): readonly string[] {
  return asksForKeys(settings) ? [`      -H "authorization: Bearer $${KEY_VARIABLE}" \\`] : [];
}

/** Returns the command, with the option that accepts a self-signed certificate if there is a certificate. */
function curl({ tlsCertPath }: Settings<'local'>): string {
  return tlsCertPath === undefined ? 'curl' : 'curl -k';
}

/** Quotes a word for a shell: in single quotes if it needs them. */
function quoted(text: string): string {
  if (/^[\w./:-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Whether routing decisions come from caches and the workers here know the blocks of prompts. */
function canExplain({ engine, routerMode, tlsCertPath }: Settings<'local'>): boolean {
  return engine === 'mocker' && routerMode === 'kv' && tlsCertPath === undefined;
}

const NUMBERS_MIN = 40;
const NUMBERS_MAX = 1000;

/**
 * Returns requests that send a prompt of several blocks once, then ask which worker would get it now and what it has
 * cached.
 */
function explanation(name: string, url: string, settings: Settings<'local'>): readonly string[] {
  // A number is two tokens or more with any tokenizer, so this is four blocks at least.
  const numbers = Math.min(NUMBERS_MAX, Math.max(NUMBERS_MIN, 2 * settings.blockSize));
  const body = JSON.stringify({ model: name, max_tokens: 1, prompt: '' });
  return [
    '  Send a prompt of several blocks, then see which worker has it cached and would get it again:',
    `    PROMPT="$(seq -s ' ' 1 ${numbers})"`,
    `    curl -s ${url}${settings.httpSvcCmpPath} -H 'content-type: application/json' \\`,
    ...keyLine(settings),
    `      -d ${quoted(body.slice(0, -2))}"$PROMPT"${quoted(body.slice(-2))}`,
    `    npx stator router explain --url ${url} --model ${quoted(name)} --prompt "$PROMPT"`,
  ];
}

function served({ models }: Frontend): string {
  const names = models.list().map(({ name }) => name);
  return names.length === 1 ? `model ${names[0]}` : `models ${names.join(', ')}`;
}

function scaled({ planner, minWorkers, maxWorkers }: Settings<'local'>): string {
  return planner ? ` (${minWorkers} to ${maxWorkers}, as the planner decides)` : '';
}

function describeWorkers({ workers, prefillWorkers }: LocalFleet, engine: string): string {
  if (engine !== 'mocker') return 'one worker in front of your server';
  if (prefillWorkers > 0) return `${prefillWorkers} prefill and ${workers} decode mock workers`;
  return workers === 1 ? 'one mock worker' : `${workers} mock workers`;
}
