/** Arguments that every release has and that tests give. */
const FLAGS = [
  'host',
  'port',
  'served-model-name',
  'max-num-seqs',
  'max-num-batched-tokens',
  'max-model-len',
  'block-size',
  'enable-prefix-caching',
  'kv-events-config',
  'kv-transfer-config',
  'data-parallel-size',
  'enable-scale-out',
  'shutdown-timeout',
  'enable-prompt-tokens-details',
  'disable-uvicorn-access-log',
];

/** Reads a command line: all words, and the value of a flag. Answers and refuses what vLLM's parser does. */
export function readCommandLine(words, env) {
  const refused = env.FAKE_UNKNOWN?.split(',') ?? [];
  if (!env.FAKE_MUTE && words[0] === '--version') {
    console.log(env.FAKE_VERSION ?? '0.33.0');
    process.exit(0);
  }
  if (!env.FAKE_MUTE && words[0] === 'serve' && words[1] === '--help=all') {
    console.log('usage: vllm serve [model_tag] [options]\n\noptions:');
    for (const flag of FLAGS) if (!refused.includes(`--${flag}`)) console.log(`  --${flag}, --no-${flag}`);
    process.exit(0);
  }
  const unknown = words.filter((word) => refused.includes(word.split('=')[0]));
  if (words[0] !== 'serve')
    refuse('vllm', `argument subparser: invalid choice: '${words[0]}' (choose from chat, serve)`);
  if (unknown.length > 0) refuse('vllm', `unrecognized arguments: ${unknown.join(' ')}`);
  return { words, model: words[1], value: (flag) => lastValue(words, flag) };
}

function lastValue(words, flag) {
  const at = words.lastIndexOf(flag);
  return at < 0 ? undefined : words[at + 1];
}

function refuse(program, text) {
  console.error(`usage: ${program} [-h] [-v] {chat,serve} ...\n${program}: error: ${text}`);
  process.exit(2);
}
