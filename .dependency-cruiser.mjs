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
  'fleet',
  'engines',
  'worker',
  'pipeline',
  'routing',
  'standalone',
  'planner',
  'frontends',
  'simulate',
  'commands',
];

// Rooms with several doors: each sub-folder is a public part of its own, and so is each command.
const DOORS = '(index|[a-z-]+/index)\\.ts$';
const COMMAND = '[a-z-]+\\.ts$';

export default {
  forbidden: [
    {
      name: 'no-circular',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
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
      to: { path: `^shared/${room}/`, pathNot: `^shared/${room}/(${DOORS}|${room === 'commands' ? COMMAND : DOORS})` },
    })),
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
