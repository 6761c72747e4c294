// The report's data from the page itself: plain JSON, or gzip in base64 where it is large.
import type { Report } from "./types";

export async function readReport(): Promise<Report> {
  const script = document.getElementById("report-data")!;
  const text = script.textContent ?? "";
  if (script.dataset["encoding"] !== "gzip") return JSON.parse(text) as Report;
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as Report;
}
