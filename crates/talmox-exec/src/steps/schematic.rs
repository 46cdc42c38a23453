//! Telling the Image Factory of a schematic.

use talmox_image::closest;
use talmox_types::desired::FactorySchematic;

use crate::StepError;
use crate::images::{ImageError, ImageFault};
use crate::work::{End, Result, Work};

/// Checks the extensions first: the factory takes any name, and says only when an image is fetched that there is none.
/// Telling it twice changes nothing, here or there.
pub(super) async fn register(work: &Work<'_>, schematic: &FactorySchematic) -> Result {
    let FactorySchematic { factory, id, body, .. } = schematic;
    check_extensions(work, schematic).await?;
    let doing = format!("tell the Image Factory {factory} of schematic {id}");
    let registered = work.run.images.register(factory, body).await;
    let registered = registered.map_err(|source| StepError::Image { doing, source })?;
    if registered == id.as_str() {
        return Ok(End::Unchanged);
    }
    Err(StepError::OtherSchematic { factory: factory.clone(), computed: id.clone(), registered })
}

async fn check_extensions(work: &Work<'_>, schematic: &FactorySchematic) -> Result<()> {
    let FactorySchematic { factory, talos, extensions, .. } = schematic;
    if extensions.is_empty() {
        return Ok(());
    }
    let known = match work.run.images.extensions(factory, talos).await {
        Ok(known) => known,
        // A mirror may serve images and no lists.
        Err(ImageError { kind: ImageFault::Refused(404), words, .. }) => {
            work.warn(&format!("{factory} does not tell which extensions Talos {talos} has ({words})"));
            return Ok(());
        }
        Err(source) => {
            let doing = format!("ask the Image Factory {factory} for the extensions of Talos {talos}");
            return Err(StepError::Image { doing, source });
        }
    };
    let unknown: Vec<_> = extensions.iter().filter(|name| !known.contains(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let meant = |name: &String| {
        let meant = closest(name, known.iter().map(String::as_str));
        (name.clone(), meant.map(str::to_owned))
    };
    Err(StepError::UnknownExtensions {
        talos: talos.clone(),
        factory: factory.clone(),
        unknown: unknown.into_iter().map(meant).collect(),
    })
}
