import { delimiter } from 'node:path';
import { vllms } from './tools/vllm.ts';

// Prints the folders of the vLLMs for the live run, joined as in PATH. Installs the missing ones first.
const folders: string[] = [];
for (const tool of vllms) {
  const installed = await tool.findInstalled();
  if (installed === undefined) console.error(`Installing ${tool.name}: 3 GB to download, 6 GB on disk...`);
  folders.push(installed ?? (await tool.install()));
}
console.log(folders.join(delimiter));
