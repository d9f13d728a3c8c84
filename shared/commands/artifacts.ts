import { basename, resolve } from 'node:path';
import { bucketPlace, listArtifacts, pushFolder } from '../artifacts/index.ts';
import { parseFlags, UsageError } from './config.ts';

/** Lines of `stator artifacts --help`. */
export const ARTIFACTS_HELP = `Usage: stator artifacts push FOLDER [--bucket NAME]
       stator artifacts list [--bucket NAME]

Uploads the files of a model folder that frontends need to a bucket: configuration, tokenizer and chat template, but
no weights. Each file is stored under its checksum, and files that exist already are skipped. A frontend can then open
the model while no worker of it can be reached.

  --bucket NAME     bucket (default: STATOR_ARTIFACTS_BUCKET)
  --json            prints one JSON object for each file

The AWS SDK finds credentials and region in its usual places. AWS_ENDPOINT names another server that speaks S3.
`;

type Env = Readonly<Record<string, string | undefined>>;

/**
 * Runs `stator artifacts`; resolves with what it prints.
 * @throws UsageError for a mistake in its arguments, Error with one line when folder or bucket cannot be used
 */
export async function runArtifacts(argv: readonly string[], env: Env = process.env): Promise<string> {
  const { values, positionals } = parseFlags({
    args: [...argv],
    allowPositionals: true,
    options: { bucket: { type: 'string' }, json: { type: 'boolean' } },
  });
  const [verb, ...rest] = positionals;
  const bucket = values.bucket ?? env.STATOR_ARTIFACTS_BUCKET;
  if (bucket === undefined || bucket === '')
    throw new UsageError('name a bucket with --bucket or STATOR_ARTIFACTS_BUCKET');
  const place = bucketPlace({
    awsEndpoint: env.AWS_ENDPOINT,
    awsAllowHttp: env.AWS_ALLOW_HTTP === 'true',
    awsRegion: env.AWS_REGION,
  });
  const show = values.json === true ? toJson : toLine;
  if (verb === 'list' && rest.length === 0) {
    return (await listArtifacts(bucket, place)).map(show).join('');
  }
  const [folder] = rest;
  if (verb !== 'push' || folder === undefined || rest.length > 1) {
    throw new UsageError('stator artifacts takes push FOLDER, or list');
  }
  const pushed = await pushFolder(resolve(folder), bucket, place);
  return pushed.map(show).join('');
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
