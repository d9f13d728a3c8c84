// A stand-in for an engine of one release: FAKE_RELEASE=vllm-0.20.2 node release-engine.mjs serve MODEL ...
import { releaseNamed } from './release.mjs';
import { startSglang } from './sglang-server.mjs';
import { startVllm } from './vllm-server.mjs';

const release = releaseNamed(process.env.FAKE_RELEASE);
const args = process.argv.slice(2);
if (args.includes('--version')) {
  console.log(release.release);
  process.exit(0);
}
await (release.engine === 'vllm' ? startVllm(release, args) : startSglang(release, args));
console.log(`INFO ${release.engine} ${release.release} is up`);
