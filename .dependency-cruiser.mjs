// The import direction of docs/architecture.md: a room under shared/ imports only from rooms above it in this list,
// and only through its public door (index.ts). functions/ and infra/ stand on top and hold no logic.
const ROOMS = [
  'clock',
  'records',
  'errors',
  'concurrency',
  'config',
  'telemetry',
  'grpc',
  'protocol',
  'tokens',
  'parsers',
  'planes',
  'discovery',
  'artifacts',
  'access',
  'responses',
  'router',
  'block-index',
  'worker-events',
  'scheduler',
  'router-state',
  'router-service',
  'stateless-router',
  'fleet',
  'engines',
  'worker',
  'pipeline',
  'routing',
  'standalone',
  'planner',
  'host',
  'console',
  'frontends',
  'simulate',
  'commands',
];

/** Folders of `shared/frontends/http/` that are no dialect. */
const BESIDE_DIALECTS = ['console', 'exchange', 'openapi', 'routes', 'sinks'];

export default {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-circular-folders', severity: 'error', scope: 'folder', from: {}, to: { circular: true } },
    ...ROOMS.map((room, at) => ({
      name: `${room}-imports-only-upward`,
      severity: 'error',
      from: { path: `^shared/${room}/` },
      to: { path: `^shared/(${ROOMS.slice(at + 1).join('|') || 'none'})/` },
    })),
    ...ROOMS.map((room) => ({
      name: `${room}-has-one-door`,
      severity: 'error',
      from: { path: '^(shared|functions|infra)/', pathNot: `^shared/${room}/` },
      to: { path: `^shared/${room}/`, pathNot: `^shared/${room}/index\\.ts$` },
    })),
    {
      name: 'dialect-knows-no-other-dialect', // what they share is in these folders beside them
      severity: 'error',
      from: { path: `^shared/frontends/http/(?!(?:${BESIDE_DIALECTS.join('|')})/)([^/]+)/` },
      to: {
        path: `^shared/frontends/http/(?!(?:${BESIDE_DIALECTS.join('|')})/)[^/]+/`,
        pathNot: '^shared/frontends/http/$1/',
      },
    },
    {
      name: 'options-of-a-fleet-know-no-environment', // EC2 and pods share them
      severity: 'error',
      from: { path: '^shared/planner/options/' },
      to: { path: '^shared/planner/(ec2|kubernetes)/' },
    },
    {
      name: 'environments-of-a-planner-share-only-options',
      severity: 'error',
      from: { path: '^shared/planner/(ec2|kubernetes)/' },
      to: { path: '^shared/planner/(ec2|kubernetes)/', pathNot: '^shared/planner/$1/' },
    },
    {
      name: 'shared-knows-no-host',
      severity: 'error',
      from: { path: '^shared/' },
      to: { path: '^(functions|infra|test|bench)/' },
    },
    {
      name: 'functions-know-no-infra',
      severity: 'error',
      from: { path: '^functions/' },
      to: { path: '^(infra|test|bench)/' },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { extensions: ['.ts', '.mjs', '.js'], conditionNames: ['import', 'node', 'default'] },
  },
};
