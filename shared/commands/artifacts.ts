import { basename, resolve } from 'node:path';
import { type BucketPlace, bucketPlace, listArtifacts, openModel, pushFolder } from '../artifacts/index.ts';
import { type Clock, systemClock } from '../clock/index.ts';
import { resolveConfig } from '../config/index.ts';
import { openLogger } from '../telemetry/index.ts';
import { parseFlags, UsageError } from './config.ts';
import { fetchWeights } from './fetch-weights.ts';

/** Lines of `stator artifacts --help`. */
export const ARTIFACTS_HELP = `Usage: stator artifacts push MODEL [--bucket NAME]
       stator artifacts list [--bucket NAME]
       stator artifacts fetch s3://BUCKET/FOLDER/ FOLDER

Uploads the files of a model that frontends need to a bucket: configuration, tokenizer and chat template, but no
weights. MODEL is a folder, or the id of a model on the Hugging Face Hub (ORG/NAME[@REVISION]). Each file is stored
under its checksum, and files that exist already are skipped. A frontend can then open the model while no worker of it
can be reached.

fetch copies all files of a folder in a bucket, such as the weights of a model, to a folder of this machine. A file that
is there already with the size of its object stays, and one that broke off goes on where it ended. If the folder has a
file SHA256SUMS, as sha256sum writes it, the sums of the files that are copied are checked.

Flags of push and list:
  --bucket NAME     bucket (default: STATOR_ARTIFACTS_BUCKET)
  --json            prints one JSON object for each file

The AWS SDK finds credentials and region in its usual places. AWS_ENDPOINT names another server that speaks S3.
`;

type Env = Readonly<Record<string, string | undefined>>;

interface Surroundings {
  /** @default the machine's clock */
  readonly clock?: Clock;
  /** Ends `fetch`. @default nothing does */
  readonly signal?: AbortSignal;
  /** Prints a part of the text earlier. @default prints nothing */
  print?(text: string): void;
}

/**
 * Runs `stator artifacts`; resolves with what it prints.
 * @throws UsageError for a mistake in its arguments, Error with one line when folder or bucket cannot be used
 */
export async function runArtifacts(
  argv: readonly string[],
  env: Env = process.env,
  { clock = systemClock, signal = new AbortController().signal, print = () => {} }: Surroundings = {},
): Promise<string> {
  const { values, positionals } = parseFlags({
    args: [...argv],
    allowPositionals: true,
    options: { bucket: { type: 'string' }, json: { type: 'boolean' } },
  });
  const [verb, ...rest] = positionals;
  if (verb === 'fetch') {
    const [flag] = Object.keys(values);
    if (flag !== undefined) throw new UsageError(`--${flag} is for push and list: stator artifacts fetch has no flags`);
    return await fetchWeights(rest, { place: placeOf(env), clock, print }, signal);
  }
  const bucket = values.bucket ?? env.STATOR_ARTIFACTS_BUCKET;
  if (bucket === undefined || bucket === '')
    throw new UsageError('name a bucket with --bucket or STATOR_ARTIFACTS_BUCKET');
  const place = placeOf(env);
  const show = values.json === true ? toJson : toLine;
  if (verb === 'list' && rest.length === 0) {
    return (await listArtifacts(bucket, place)).map(show).join('');
  }
  const [model] = rest;
  if (verb !== 'push' || model === undefined || rest.length > 1) {
    throw new UsageError('stator artifacts takes push MODEL, list, or fetch ADDRESS FOLDER');
  }
  const pushed = await pushFolder(await folderOf(model, env, clock), bucket, place);
  return pushed.map(show).join('');
}

function placeOf(env: Env): BucketPlace {
  return bucketPlace({
    awsEndpoint: env.AWS_ENDPOINT,
    awsAllowHttp: env.AWS_ALLOW_HTTP === 'true',
    awsRegion: env.AWS_REGION,
  });
}

/** Variables that choose the hub and its cache. */
const OF_HUB = /^(HF_|HUGGING_?FACE_|TRANSFORMERS_OFFLINE$)/;

/** Returns the folder of a model, which may first have to be downloaded. */
async function folderOf(model: string, env: Env, clock: Clock): Promise<string> {
  const ofHub = Object.fromEntries(Object.entries(env).filter(([name]) => OF_HUB.test(name)));
  const { settings } = resolveConfig('frontend', [], ofHub);
  return (await openModel(model, { settings, clock, logger: openLogger(settings).for('models') })) ?? resolve(model);
}

interface Shown {
  readonly key: string;
  readonly size: number;
  /** Name of a pushed file in its folder, and whether the push is new. */
  readonly path?: string;
  readonly isNew?: boolean;
}

function toJson(shown: Shown): string {
  return `${JSON.stringify(shown)}\n`;
}

function toLine({ key, size, path, isNew }: Shown): string {
  const name = path === undefined ? '' : `  ${basename(path)}${isNew === true ? '' : ' (was there)'}`;
  return `${String(size).padStart(11)}  ${key}${name}\n`;
}
