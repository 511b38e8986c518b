// Shared by the drivers: reads one call per line from standard input, and writes one line with the reply that the client saw
// to standard output. Calls run concurrently; a reply has the id of its call.

import { createInterface } from "node:readline";

/**
 * Answers every line with the result of `answer` for its call: a reply, or an error, which becomes the reply's `failure`.
 * Ends after the end of the input, when the last call has its reply.
 */
export async function answerLines(answer) {
  const running = [];
  for await (const line of createInterface({ input: process.stdin })) {
    const call = JSON.parse(line);
    const replied = answer(call)
      .catch((error) => ({ failure: String(error?.stack ?? error) }))
      .then((reply) => process.stdout.write(`${JSON.stringify({ id: call.id, ...reply })}\n`));
    running.push(replied);
  }
  await Promise.all(running);
}
