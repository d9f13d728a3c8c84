import { EDGES, LISTENERS } from '../processes.ts';
import { bool, choice, file, int, secret, text } from '../row.ts';

/** Rows of "Access keys". */
export const accessRows = {
  auth: choice({
    flags: ['--auth'],
    env: ['STATOR_AUTH'],
    values: ['auto', 'on', 'off'],
    default: 'auto',
    usedBy: EDGES,
    source: 'Stator',
    about: 'Asks for API keys; auto = off on a loopback address, elsewhere on where there is a store of keys.',
  }),
  keysTable: text({
    env: ['STATOR_KEYS_TABLE'],
    defaultText: 'unset = the file',
    usedBy: EDGES,
    source: 'Stator',
    about: 'DynamoDB table of API keys.',
  }),
  keysFile: file({
    flags: ['--keys-file'],
    env: ['STATOR_KEYS_FILE'],
    allowed: 'a JSON file, need not exist',
    written: true,
    defaultText: 'unset = none',
    usedBy: LISTENERS,
    source: 'Stator',
    about: 'File of API keys, which stator keys writes, for processes without a table.',
  }),
  keyCacheSecs: int({
    env: ['STATOR_KEY_CACHE_SECS'],
    min: 0,
    max: 300,
    unit: 's',
    default: 60,
    usedBy: EDGES,
    source: 'Stator',
    about: 'Longest time until a revoked key is refused; a key in use is read once in it.',
  }),
  metricsAuth: bool({
    env: ['STATOR_METRICS_AUTH'],
    default: false,
    usedBy: EDGES,
    source: 'Stator',
    about: 'Keeps /metrics for operators and for keys with the scope metrics.',
  }),
  docsAuth: bool({
    env: ['STATOR_DOCS_AUTH'],
    default: false,
    usedBy: EDGES,
    source: 'Stator',
    about: 'Keeps /, /docs and /openapi.json for operators and for whoever has a key.',
  }),
  cacheIsolation: choice({
    env: ['STATOR_CACHE_ISOLATION'],
    values: ['figures', 'blocks', 'off'],
    default: 'figures',
    usedBy: EDGES,
    source: 'Stator',
    about:
      'What answers under keys tell of the cache: figures = not what was cached; blocks = all, since owners share nothing; off = all.',
  }),
  idSecret: secret({
    env: ['STATOR_ID_SECRET'],
    minLength: 32,
    defaultText: 'unset = STATOR_PLANE_TOKEN, else each cancels its own alone',
    usedBy: EDGES,
    source: 'Stator',
    about: 'Shared by all frontends, so that each can cancel what another streams, by its id.',
  }),
};
